"""The command line, what it prints, and the entry points for spark-submit. Imports the library."""
