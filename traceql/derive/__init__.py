"""Every table of a database: what it is, what it is made from, and in which order it is made."""
