"""Matches the operations of different ranks, and finds how the clocks of ranks differ."""
