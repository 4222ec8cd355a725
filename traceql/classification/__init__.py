"""What each kernel is: a category for every kernel name, decided by rules."""
