"""Experiments: the results of many points as one database, and what it answers."""

from traceql.runs.experiment.experiment import Experiment, experiment

__all__ = ["Experiment", "experiment"]
