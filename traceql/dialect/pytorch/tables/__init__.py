"""What the words of PyTorch's profiler say, as tables that know nothing of them."""
