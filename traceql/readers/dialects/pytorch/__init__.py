"""The words of PyTorch's profiler (Kineto), which native Perfetto traces of it use too."""
