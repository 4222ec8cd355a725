"""Mutators: small functions that damage one thing; all that is random comes from `random`."""
