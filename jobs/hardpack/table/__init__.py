"""What Iceberg's metadata says of a table, read by pyiceberg: columns, files, state, history. Imports rules."""
