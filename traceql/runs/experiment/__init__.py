"""Experiments: the results of many points in one database, with queries and SQL."""

from traceql.runs.experiment.experiment import Experiment, experiment

__all__ = ["Experiment", "experiment"]
