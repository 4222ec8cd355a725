"""Reads profiles of Nsight Compute: CSV that `ncu` printed, and its reports by NVIDIA's module."""
