"""The words that all forms of a gate's answer share."""

from collections.abc import Iterator

from traceql.runs.compare.setup import Difference, Effect
from traceql.runs.gate.outcome import Cause, Gate, Numbers, Outcome, Verdict
from traceql.util.printable import one_line, shortened
from traceql.util.units import TIME

_LONGEST_NAME = 60
_LONGEST_VALUE = 60
_TOLD = (Effect.FORBIDS, Effect.WARNS, Effect.NOTES)


def headline(gate: Gate) -> str:
    """The answer in one line."""
    runs = f"{_counted(len(gate.base.runs), 'run')} of base, {len(gate.new.runs)} of new"
    number = len(gate.outcomes)
    criteria = "1 criterion" if number == 1 else f"{number} criteria"
    count = gate.count(gate.verdict)
    told = [f"{gate.verdict} in {criteria if count == number else f'{count} of {criteria}'}"]
    told += [
        f"{others} {verdict}"
        for verdict in Verdict
        if verdict is not gate.verdict and (others := gate.count(verdict))
    ]
    return f"{', '.join(told)} ({runs})"


def verdict(outcome: Outcome) -> str:
    """The verdict; an improvement is told as one."""
    return "improvement" if outcome.improved else str(outcome.verdict)


def value(amount: float, unit: str) -> str:
    if unit != "ns":
        return f"{amount:,.1f} {unit}"
    divisor = TIME.divisor(amount)
    return f"{amount / divisor:,.{3 if divisor > 1 else 0}f} {TIME.symbol(divisor)}"


def delta(ns: float) -> str:
    """A difference of two times."""
    divisor = TIME.divisor(ns)
    decimals = {1: 0, 1e3: 1}.get(divisor, 2)
    return f"{ns / divisor:+,.{decimals}f} {TIME.symbol(divisor)}"


def change(numbers: Numbers) -> str:
    of_step = "" if numbers.percent_of == "itself" else " of the step"
    return f"{numbers.change_pct:+.2f}%{of_step}"


def interval(numbers: Numbers) -> str:
    """The 95% interval; empty if there are too few runs for one."""
    if numbers.low_pct is None or numbers.high_pct is None:
        return ""
    return f"{numbers.low_pct:+.2f}% to {numbers.high_pct:+.2f}%"


def kernels(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(shortened(one_line(name), _LONGEST_NAME) for name in names)


def place(cause: Cause) -> str:
    """The part of the step, with the role or the reason."""
    return one_line(", ".join(word for word in (cause.part, cause.role, cause.cause) if word))


def told_differences(gate: Gate) -> list[Difference]:
    """The differences of the set-up that may matter, those that forbid a verdict first."""
    return [one for one in gate.differences if one.effect in _TOLD]


def sides_of(one: Difference) -> tuple[str, str]:
    """The values of base and new; of long lists that begin alike, those that one side alone has."""
    base, new = _values(one.base), _values(one.new)
    if base != new:
        return base, new
    alone = [
        _values(tuple(value for value in side if value not in other))
        if set(side) - set(other)
        else f"{len(side)} of these"
        for side, other in ((one.base, one.new), (one.new, one.base))
    ]
    return alone[0], alone[1]


def _values(side: tuple[str, ...]) -> str:
    return shortened(one_line(" or ".join(side)), _LONGEST_VALUE) if side else "not set"


def coverage(gate: Gate) -> Iterator[str]:
    """How much is compared, if it is not all."""
    for name, side in (("base", gate.base), ("new", gate.new)):
        if side.compared_pct is not None and side.compared_pct < 100:
            share = f"{side.compared_pct:.1f}"
            yield f"{'100' if share == '100.0' else share}% of the time of {name}'s steps"


def _counted(count: int, singular: str) -> str:
    return f"{count} {singular}{'' if count == 1 else 's'}"
