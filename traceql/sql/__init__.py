"""Makes all tables of a database from the ones that loading fills; each table is one file."""
