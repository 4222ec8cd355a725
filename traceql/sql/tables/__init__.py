"""One file per table: a SQL file if SQL can make the table, else a Python file."""
