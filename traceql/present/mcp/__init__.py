"""Queries, SQL, findings and definitions as tools of an assistant: the Model Context Protocol."""
