"""PyTorch's profiler (Kineto): its categories, arguments, annotations and metadata."""
