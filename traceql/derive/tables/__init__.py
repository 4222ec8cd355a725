"""One file per table: SQL where SQL can make it, Python where it cannot."""
