"""The vocabulary of PyTorch's profiler (Kineto): categories, arguments, annotations, metadata."""
