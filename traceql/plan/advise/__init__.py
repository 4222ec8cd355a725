"""Which layout of a model to run: what fits, how fast it would be, and how uncertain that is."""

from traceql.plan.advise.advice import Advice, advise

__all__ = ["Advice", "advise"]
