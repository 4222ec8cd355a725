"""What is particular to the vocabulary of one profiler: a folder for each."""
