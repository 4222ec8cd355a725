"""Gates of runs in memory."""

from collections.abc import Sequence

from traceql.runs.compare.sides import RunProfile
from traceql.runs.gate.criterion import criteria
from traceql.runs.gate.decision import decide
from traceql.runs.gate.outcome import Gate, Outcome

SLOWER_DECODE = {"gate_up_proj": 1.12}  # the decode step takes 4% longer


def decided(
    base: Sequence[RunProfile], new: Sequence[RunProfile], *texts: str, accept: Sequence[str] = ()
) -> Gate:
    return decide(base, new, criteria(texts), accept=accept)


def outcome(base: Sequence[RunProfile], new: Sequence[RunProfile], criterion: str) -> Outcome:
    (found,) = decided(base, new, criterion).outcomes
    return found
