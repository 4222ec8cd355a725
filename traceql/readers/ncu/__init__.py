"""Reads profiles of Nsight Compute: CSV of `ncu`, and reports with NVIDIA's module."""
