"""SQL cells in Jupyter."""
