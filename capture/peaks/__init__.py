"""Measures what the GPUs of this machine can reach: memory, matrix products, communication."""
