"""Results as tables: for a terminal, a page, or another program."""
