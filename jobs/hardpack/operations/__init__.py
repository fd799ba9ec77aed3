"""What a person asks for beside a pass, a module for each verb. Imports compaction and what lies below it."""
