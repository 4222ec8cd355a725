"""Arrow tables as people and other programs read them: terminal, HTML, notebook, CSV, JSON."""
