"""The kinds of drills, one module each."""
