"""Measures what the GPUs of this machine can reach: memory, products of matrices, communication."""
