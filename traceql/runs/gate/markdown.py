"""The answer of a gate as Markdown, for a comment on a pull request."""

import re
from collections.abc import Iterator

from traceql.runs.compare.setup import Difference
from traceql.runs.gate import words
from traceql.runs.gate.outcome import Cause, Gate, Outcome, Verdict
from traceql.util.printable import one_line

_SIGNS = {
    Verdict.REGRESSION: "❌",
    Verdict.NOT_COMPARABLE: "🚫",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.NO_REGRESSION: "✅",
}
_MOST_DIFFERENCES = 5
_MOST_FOLDED = 100
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")
_SILENT = "@\u200b"  # notifies nobody
_TICKS = re.compile(r"`+")
_TABLE = ("criterion", "base", "new", "change", "95% interval", "verdict")


def markdown(gate: Gate) -> str:
    """The comment: the answer, one table, what made it slower, and what differs."""
    return "\n".join(_lines(gate)) + "\n"


def _lines(gate: Gate) -> Iterator[str]:
    yield f"### {_SIGNS[gate.verdict]} traceql gate: {_escaped(words.headline(gate))}"
    yield ""
    yield f"| {' | '.join(_TABLE)} |"
    yield "|---|---:|---:|---:|---|---|"
    for outcome in gate.outcomes:
        yield f"| {' | '.join(_cells(outcome))} |"
    for note in gate.notes:
        yield from ("", f"**{_escaped(note)}**")
    for outcome in gate.outcomes:
        if outcome.causes:
            yield from _causes(outcome)
    yield from _setup(words.told_differences(gate))
    yield from _details(gate)


def _cells(outcome: Outcome) -> Iterator[str]:
    yield _in_table(code(str(outcome.criterion)))
    numbers = outcome.numbers
    if numbers is None:
        yield from ("", "", "", "")
    else:
        yield _escaped(words.value(numbers.base, numbers.unit))
        yield _escaped(words.value(numbers.new, numbers.unit))
        is_told = outcome.verdict is not Verdict.NOT_COMPARABLE
        yield _escaped(words.change(numbers)) if is_told else ""
        yield _escaped(words.interval(numbers)) if is_told else ""
    reason = f"; {_escaped(outcome.reason)}" if outcome.reason else ""
    yield f"{_SIGNS[outcome.verdict]} {words.verdict(outcome)}{reason}"


def _causes(outcome: Outcome) -> Iterator[str]:
    yield from ("", f"What made {code(outcome.criterion.name)} worse:", "")
    for cause in outcome.causes:
        yield f"- **{_escaped(words.delta(cause.delta_ns))}** {_place(cause)}{_kernels(cause)}"


def _place(cause: Cause) -> str:
    return code(words.place(cause))


def _kernels(cause: Cause) -> str:
    sides = [
        " and ".join(code(name) for name in words.kernels(side)) or "none"
        for side in (cause.base_kernels, cause.new_kernels)
    ]
    if not (cause.base_kernels or cause.new_kernels):
        return ""
    return f": {sides[0]}" if sides[0] == sides[1] else f": {sides[0]} → {sides[1]}"


def _setup(found: list[Difference]) -> Iterator[str]:
    if not found:
        return
    yield from ("", "Set-up that differs:", "")
    yield from map(_difference, found[:_MOST_DIFFERENCES])
    if rest := found[_MOST_DIFFERENCES:]:
        yield from ("", f"<details><summary>{len(rest)} more</summary>", "")
        yield from map(_difference, rest[:_MOST_FOLDED])
        yield from ("", "</details>")


def _difference(one: Difference) -> str:
    sides = [code(side) for side in words.sides_of(one)]
    return f"- {code(one.name)} ({one.effect}): {sides[0]} → {sides[1]}"


def _details(gate: Gate) -> Iterator[str]:
    yield from ("", "<details><summary>Runs and method</summary>", "")
    for name, side in (("base", gate.base), ("new", gate.new)):
        runs = ", ".join(code(run) for run in side.runs[:_MOST_FOLDED])
        yield f"- {name}: {runs}"
    for part in words.coverage(gate):
        yield f"- compared: {_escaped(part)}"
    yield "- Each run counts once. The change is the Hodges-Lehmann estimate of the medians of the"
    yield "  runs, with its exact 95% interval. Regressions hold for all criteria together (Holm)."
    yield from ("", "</details>")


def code(text: str) -> str:
    """The text as code, in which no character means anything."""
    plain = one_line(text)
    longest = max((len(found[0]) for found in _TICKS.finditer(plain)), default=0)
    fence = "`" * (longest + 1)
    blank = " " if not plain or plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{blank}{plain}{blank}{fence}"


def _in_table(code_: str) -> str:
    return code_.replace("|", "\\|")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text)).replace("@", _SILENT)
