"""The answer of a gate as plain text."""

from collections.abc import Iterator
from dataclasses import dataclass

from traceql.runs.compare.setup import Effect
from traceql.runs.gate import words
from traceql.runs.gate.outcome import Gate, Outcome, Verdict

_MARKS = {
    Verdict.REGRESSION: "✗",
    Verdict.NOT_COMPARABLE: "-",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NO_REGRESSION: "✓",
}
_MOST_DIFFERENCES = 6


@dataclass(frozen=True)
class Line:
    """A paragraph, and what stands before its first line."""

    before: str
    text: str
    is_bold: bool = False


def text(gate: Gate) -> str:
    """The whole answer; a paragraph is one line."""
    return "".join(f"{line.before}{line.text}\n" for line in lines(gate))


def lines(gate: Gate) -> Iterator[Line]:
    """The paragraphs of the answer, which comes first."""
    yield Line(f"{_MARKS[gate.verdict]} ", words.headline(gate), is_bold=True)
    for note in gate.notes:
        yield Line("! ", note)
    yield Line("", "")
    for outcome in gate.outcomes:
        yield from outcome_lines(outcome)
    yield from _setup(gate)
    if parts := list(words.coverage(gate)):
        yield Line("", "")
        yield Line("  ", f"compared: {', '.join(parts)}")


def outcome_lines(outcome: Outcome) -> Iterator[Line]:
    numbers = outcome.numbers
    told = f"{outcome.criterion}: {words.verdict(outcome)}"
    if numbers and outcome.verdict is not Verdict.NOT_COMPARABLE:
        told += f", {words.change(numbers)}"
        if interval := words.interval(numbers):
            told += f" (95% interval {interval})"
    yield Line(f"{_MARKS[outcome.verdict]} ", told)
    if outcome.reason:
        yield Line("    ", outcome.reason)
    if numbers:
        sides = [words.value(side, numbers.unit) for side in (numbers.base, numbers.new)]
        is_told = numbers.p is not None and outcome.verdict is not Verdict.NOT_COMPARABLE
        p = "" if not is_told else f"; p {numbers.p:.2g}"
        yield Line("    ", f"{sides[0]} -> {sides[1]}{p}")
    for cause in outcome.causes:
        names = [
            " and ".join(words.kernels(side)) for side in (cause.base_kernels, cause.new_kernels)
        ]
        if names[0] == names[1]:
            names = names[:1]
        shown = f": {' -> '.join(name or 'none' for name in names)}" if any(names) else ""
        yield Line("    ", f"{words.delta(cause.delta_ns)} {words.place(cause)}{shown}")


def _setup(gate: Gate) -> Iterator[Line]:
    found = words.told_differences(gate)
    if not found:
        return
    yield Line("", "")
    yield Line("  ", "set-up that differs:")
    for one in found[:_MOST_DIFFERENCES]:
        forbids = ", forbids a verdict" if one.effect is Effect.FORBIDS else ""
        sides = " -> ".join(words.sides_of(one))
        yield Line("    ", f"{one.name}: {sides}{forbids}")
    if (more := len(found) - _MOST_DIFFERENCES) > 0:
        yield Line("    ", f"and {more} more; --format json has all")
