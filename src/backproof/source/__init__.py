"""The model of a Function, read from source: shared by diagnosis, definition, linter."""
