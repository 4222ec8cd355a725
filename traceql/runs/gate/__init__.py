"""Whether a change may be merged: criteria, a verdict on each from repeated runs, and reports."""
