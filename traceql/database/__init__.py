"""Loading traces into a database, and reading from it."""
