"""Several runs: compared, gated, over time, in a lake, as an experiment."""
