"""Which layout of a model to run: what fits, how fast it would be, and how sure that is."""

from traceql.plan.advise.advice import Advice, Question, advise
from traceql.plan.advise.ranking import Goal, parsed_goal

__all__ = ["Advice", "Goal", "Question", "advise", "parsed_goal"]
