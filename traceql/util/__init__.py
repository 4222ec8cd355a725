"""Files, locks, units and other neutral helpers."""
