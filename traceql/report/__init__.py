"""One page, or one folder of data, that says where a run's time went."""
