"""The report on where a run's time went, as one page or as data."""
