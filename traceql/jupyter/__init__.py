"""Results and SQL in Jupyter."""
