"""The result of a gate as text, Markdown, JSON and JUnit XML."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from traceql.runs.compare.setup import Difference, Effect
from traceql.runs.gate.decision import Cause, Gate, Numbers, Outcome, Verdict
from traceql.util.resources import __version__
from traceql.util.text import format_count, one_line, printable, shortened
from traceql.util.units import TIME

_LONGEST = 60  # letters of a name or a value
_LISTED = (Effect.FORBIDS, Effect.WARNS, Effect.NOTES)
_MARKS = {
    Verdict.REGRESSION: "✗",
    Verdict.NOT_COMPARABLE: "-",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NO_REGRESSION: "✓",
}
_SIGNS = {
    Verdict.REGRESSION: "❌",
    Verdict.NOT_COMPARABLE: "🚫",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.NO_REGRESSION: "✅",
}


def headline(gate: Gate) -> str:
    runs = f"{format_count(len(gate.base.runs), 'run')} of base, {len(gate.new.runs)} of new"
    number = len(gate.outcomes)
    criteria = format_count(number, "criterion", "criteria")
    count = gate.count(gate.verdict)
    parts = [f"{gate.verdict} in {criteria if count == number else f'{count} of {criteria}'}"]
    parts += [
        f"{others} {verdict}"
        for verdict in Verdict
        if verdict is not gate.verdict and (others := gate.count(verdict))
    ]
    return f"{', '.join(parts)} ({runs})"


def format_verdict(outcome: Outcome) -> str:
    return "improvement" if outcome.improved else str(outcome.verdict)


def format_value(amount: float, unit: str) -> str:
    if unit != "ns":
        return f"{amount:,.1f} {unit}"
    divisor = TIME.divisor(amount)
    return f"{amount / divisor:,.{3 if divisor > 1 else 0}f} {TIME.symbol(divisor)}"


def format_delta(ns: float) -> str:
    divisor = TIME.divisor(ns)
    decimals = {1: 0, 1e3: 1}.get(divisor, 2)
    return f"{ns / divisor:+,.{decimals}f} {TIME.symbol(divisor)}"


def format_change(numbers: Numbers) -> str:
    of_step = "" if numbers.percent_of == "itself" else " of the step"
    return f"{numbers.change_pct:+.2f}%{of_step}"


def format_interval(numbers: Numbers) -> str:
    """The 95% interval; empty if there are too few runs for one."""
    if numbers.low_pct is None or numbers.high_pct is None:
        return ""
    return f"{numbers.low_pct:+.2f}% to {numbers.high_pct:+.2f}%"


def format_kernels(cause: Cause, style: Callable[[str], str], arrow: str) -> str:
    """The kernels of base and new after a colon; empty if there are none."""
    if not (cause.base_kernels or cause.new_kernels):
        return ""
    sides = [
        " and ".join(style(shortened(one_line(name), _LONGEST)) for name in names) or "none"
        for names in (cause.base_kernels, cause.new_kernels)
    ]
    return f": {f' {arrow} '.join(dict.fromkeys(sides))}"


def format_place(cause: Cause) -> str:
    return one_line(", ".join(word for word in (cause.part, cause.role, cause.cause) if word))


def listed_differences(gate: Gate) -> list[Difference]:
    """The differences of the set-up that may matter, those that forbid a verdict first."""
    return [one for one in gate.differences if one.effect in _LISTED]


def format_sides(one: Difference) -> list[str]:
    """The values of base and new; of long lists with equal beginnings, those of one side only."""

    def listed(values: tuple[str, ...]) -> str:
        return shortened(one_line(" or ".join(values)), _LONGEST) if values else "not set"

    base, new = listed(one.base), listed(one.new)
    if base != new:
        return [base, new]
    return [
        listed(tuple(value for value in side if value not in other))
        if set(side) - set(other)
        else f"{len(side)} of these"
        for side, other in ((one.base, one.new), (one.new, one.base))
    ]


def coverage(gate: Gate) -> Iterator[str]:
    """The compared shares of both sides that are below 100%."""
    for name, side in (("base", gate.base), ("new", gate.new)):
        if side.compared_pct is not None and side.compared_pct < 100:
            share = f"{side.compared_pct:.1f}"
            yield f"{'100' if share == '100.0' else share}% of the time of {name}'s steps"


_MOST_DIFFERENCES = 6


class Line(NamedTuple):
    """A paragraph with the mark before its first line."""

    before: str
    text: str
    is_bold: bool = False


def as_text(gate: Gate) -> str:
    return "".join(f"{line.before}{line.text}\n" for line in text_lines(gate))


def text_lines(gate: Gate) -> Iterator[Line]:
    """The paragraphs of the result, the verdict first."""
    yield Line(f"{_MARKS[gate.verdict]} ", headline(gate), is_bold=True)
    for note in gate.notes:
        yield Line("! ", note)
    yield Line("", "")
    for outcome in gate.outcomes:
        yield from outcome_lines(outcome)
    if found := listed_differences(gate):
        yield from (Line("", ""), Line("  ", "set-up that differs:"))
    for one in found[:_MOST_DIFFERENCES]:
        forbids = ", forbids a verdict" if one.effect is Effect.FORBIDS else ""
        yield Line("    ", f"{one.name}: {' -> '.join(format_sides(one))}{forbids}")
    if (more := len(found) - _MOST_DIFFERENCES) > 0:
        yield Line("    ", f"and {more} more; --format json has all")
    if parts := list(coverage(gate)):
        yield from (Line("", ""), Line("  ", f"compared: {', '.join(parts)}"))


def outcome_lines(outcome: Outcome) -> Iterator[Line]:
    numbers, is_compared = outcome.numbers, outcome.verdict is not Verdict.NOT_COMPARABLE
    line = f"{outcome.criterion}: {format_verdict(outcome)}"
    if numbers and is_compared:
        line += f", {format_change(numbers)}"
        if interval := format_interval(numbers):
            line += f" (95% interval {interval})"
    yield Line(f"{_MARKS[outcome.verdict]} ", line)
    if outcome.reason:
        yield Line("    ", outcome.reason)
    if numbers:
        sides = [format_value(side, numbers.unit) for side in (numbers.base, numbers.new)]
        p = f"; p {numbers.p:.2g}" if numbers.p is not None and is_compared else ""
        yield Line("    ", f"{sides[0]} -> {sides[1]}{p}")
    for cause in outcome.causes:
        place = f"{format_delta(cause.delta_ns)} {format_place(cause)}"
        yield Line("    ", place + format_kernels(cause, str, "->"))


_MOST_UNFOLDED = 5
_MOST_FOLDED = 100
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])")
_SILENT = "@\u200b"  # does not notify users
_TICKS = re.compile(r"`+")
_TABLE = ("criterion", "base", "new", "change", "95% interval", "verdict")


def as_markdown(gate: Gate) -> str:
    """A comment for a pull request: verdict, table of criteria, causes and differing set-up."""
    return "\n".join(_markdown_lines(gate)) + "\n"


def _markdown_lines(gate: Gate) -> Iterator[str]:
    yield f"### {_SIGNS[gate.verdict]} traceql gate: {_escaped(headline(gate))}"
    yield ""
    yield f"| {' | '.join(_TABLE)} |"
    yield "|---|---:|---:|---:|---|---|"
    for outcome in gate.outcomes:
        yield f"| {' | '.join(_cells(outcome))} |"
    for note in gate.notes:
        yield from ("", f"**{_escaped(note)}**")
    for outcome in gate.outcomes:
        if outcome.causes:
            yield from ("", f"What made {code(outcome.criterion.name)} worse:", "")
        for cause in outcome.causes:
            place = f"- **{_escaped(format_delta(cause.delta_ns))}** {code(format_place(cause))}"
            yield place + format_kernels(cause, code, "→")
    listed = [
        f"- {code(one.name)} ({one.effect}): {' → '.join(map(code, format_sides(one)))}"
        for one in listed_differences(gate)
    ]
    if listed:
        yield from ("", "Set-up that differs:", "", *listed[:_MOST_UNFOLDED])
    if rest := listed[_MOST_UNFOLDED:]:
        yield from ("", f"<details><summary>{len(rest)} more</summary>", "")
        yield from (*rest[:_MOST_FOLDED], "", "</details>")
    yield from ("", "<details><summary>Runs and method</summary>", "")
    for name, side in (("base", gate.base), ("new", gate.new)):
        yield f"- {name}: {', '.join(map(code, side.runs[:_MOST_FOLDED]))}"
    for part in coverage(gate):
        yield f"- compared: {_escaped(part)}"
    yield "- Each run counts once. The change is the Hodges-Lehmann estimate of the medians of the"
    yield "  runs, with its exact 95% interval. Regressions hold for all criteria together (Holm)."
    yield from ("", "</details>")


def _cells(outcome: Outcome) -> Iterator[str]:
    yield code(str(outcome.criterion)).replace("|", "\\|")
    numbers = outcome.numbers
    cells = [""] * 4
    if numbers:
        cells[:2] = (format_value(side, numbers.unit) for side in (numbers.base, numbers.new))
        if outcome.verdict is not Verdict.NOT_COMPARABLE:
            cells[2:] = format_change(numbers), format_interval(numbers)
    yield from map(_escaped, cells)
    reason = f"; {_escaped(outcome.reason)}" if outcome.reason else ""
    yield f"{_SIGNS[outcome.verdict]} {format_verdict(outcome)}{reason}"


def code(text: str) -> str:
    """The text as code, without Markdown markup."""
    plain = one_line(text)
    longest = max((len(found[0]) for found in _TICKS.finditer(plain)), default=0)
    fence = "`" * (longest + 1)
    blank = " " if not plain or plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{blank}{plain}{blank}{fence}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text)).replace("@", _SILENT)


_FORMAT = 1  # of the JSON document


def as_json(gate: Gate) -> str:
    """One document, with numbers in ns and percent."""
    document = {
        "format": _FORMAT,
        "traceql": __version__,
        "verdict": str(gate.verdict),
        "exit_status": gate.exit_status,
        "criteria": [_outcome(one) for one in gate.outcomes],
        "notes": list(gate.notes),
        "setup": [vars(one) | {"effect": str(one.effect)} for one in gate.differences],
        "base": gate.base._asdict(),
        "new": gate.new._asdict(),
    }
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _outcome(outcome: Outcome) -> dict[str, Any]:
    criterion = outcome.criterion
    return {
        "criterion": str(criterion),
        "scope": criterion.scope,
        "metric": criterion.metric.name,
        "limit_pct": criterion.limit_pct,
        "verdict": str(outcome.verdict),
        "improved": outcome.improved,
        "reason": outcome.reason,
        "runs_needed": outcome.runs_needed,
        "numbers": outcome.numbers and outcome.numbers._asdict(),
        "causes": [one._asdict() for one in outcome.causes],
    }


def _plain(value: Any) -> Any:
    """The value without surrogates, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


_SUITE = "traceql gate"
_CLASS = "traceql.runs.gate"


def as_junit(gate: Gate) -> str:
    failed = gate.count(Verdict.REGRESSION)
    passed = gate.count(Verdict.NO_REGRESSION)
    counts = {
        "tests": str(len(gate.outcomes)),
        "failures": str(failed),
        "errors": str(len(gate.outcomes) - failed - passed),
        "skipped": "0",
        "time": "0",
    }
    suites = ET.Element("testsuites", {"name": _SUITE, **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": _SUITE, **counts})
    for outcome in gate.outcomes:
        _case(suite, outcome)
    ET.SubElement(suite, "system-out").text = printable(as_text(gate))
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return f"{document.decode()}\n"


def _case(suite: ET.Element, outcome: Outcome) -> None:
    name = {"name": str(outcome.criterion), "classname": _CLASS, "time": "0"}
    case = ET.SubElement(suite, "testcase", name)
    numbers, verdict = outcome.numbers, outcome.verdict
    message = outcome.reason or (format_change(numbers) if numbers else "")
    attributes = {"type": str(verdict), "message": one_line(f"{verdict}: {message}")}
    if verdict is Verdict.NO_REGRESSION:
        result = ET.SubElement(case, "system-out")
    else:
        tag = "failure" if verdict is Verdict.REGRESSION else "error"
        result = ET.SubElement(case, tag, attributes)
    lines = outcome_lines(outcome)
    result.text = printable("\n".join(f"{line.before}{line.text}" for line in lines))
