"""The vocabulary of each profiler, one folder each: its names of categories and arguments."""
