"""The rows of a statement, as text, chart or data frame."""
