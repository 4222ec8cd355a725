"""Which parallel layout to run, and the limits of devices."""
