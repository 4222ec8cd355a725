"""The limits of a machine, as peaks.json has them: durations of collectives, imports, tables."""
