"""Which rows are dead, a module for each family of causes, as Spark jobs. Imports spark and what lies below it."""
