"""Experiments: a plan of points and repeats, run on vLLM servers, that survives what goes wrong."""
