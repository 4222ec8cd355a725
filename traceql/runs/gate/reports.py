"""The result of a gate as text, Markdown, JSON and JUnit XML."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree as ET

from traceql.runs.compare.setup import Difference, Effect
from traceql.runs.gate.outcome import Cause, Gate, Numbers, Outcome, Verdict
from traceql.util.resources import __version__
from traceql.util.text import format_count, one_line, printable, shortened
from traceql.util.units import TIME

_LONGEST_NAME = 60
_LONGEST_VALUE = 60
_LISTED = (Effect.FORBIDS, Effect.WARNS, Effect.NOTES)


def headline(gate: Gate) -> str:
    """The verdict in one line."""
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
    """The verdict, or improvement."""
    return "improvement" if outcome.improved else str(outcome.verdict)


def format_value(amount: float, unit: str) -> str:
    if unit != "ns":
        return f"{amount:,.1f} {unit}"
    divisor = TIME.divisor(amount)
    return f"{amount / divisor:,.{3 if divisor > 1 else 0}f} {TIME.symbol(divisor)}"


def format_delta(ns: float) -> str:
    """A difference of two times."""
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
    sides = [
        " and ".join(style(shortened(one_line(name), _LONGEST_NAME)) for name in names) or "none"
        for names in (cause.base_kernels, cause.new_kernels)
    ]
    if not (cause.base_kernels or cause.new_kernels):
        return ""
    return f": {f' {arrow} '.join(dict.fromkeys(sides))}"


def format_place(cause: Cause) -> str:
    """The part of the step, with the role or the reason."""
    return one_line(", ".join(word for word in (cause.part, cause.role, cause.cause) if word))


def listed_differences(gate: Gate) -> list[Difference]:
    """The differences of the set-up that may matter, those that forbid a verdict first."""
    return [one for one in gate.differences if one.effect in _LISTED]


def format_sides(one: Difference) -> tuple[str, str]:
    """The values of base and new; of long lists with equal beginnings, those of one side only."""
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
    """The compared shares of both sides that are below 100%."""
    for name, side in (("base", gate.base), ("new", gate.new)):
        if side.compared_pct is not None and side.compared_pct < 100:
            share = f"{side.compared_pct:.1f}"
            yield f"{'100' if share == '100.0' else share}% of the time of {name}'s steps"


_MARKS = {
    Verdict.REGRESSION: "✗",
    Verdict.NOT_COMPARABLE: "-",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NO_REGRESSION: "✓",
}
_MOST_DIFFERENCES = 6


@dataclass(frozen=True)
class Line:
    """A paragraph with the mark before its first line."""

    before: str
    text: str
    is_bold: bool = False


def as_text(gate: Gate) -> str:
    """The whole result; a paragraph is one line."""
    return "".join(f"{line.before}{line.text}\n" for line in text_lines(gate))


def text_lines(gate: Gate) -> Iterator[Line]:
    """The paragraphs of the result, the verdict first."""
    yield Line(f"{_MARKS[gate.verdict]} ", headline(gate), is_bold=True)
    for note in gate.notes:
        yield Line("! ", note)
    yield Line("", "")
    for outcome in gate.outcomes:
        yield from outcome_lines(outcome)
    yield from _setup(gate)
    if parts := list(coverage(gate)):
        yield Line("", "")
        yield Line("  ", f"compared: {', '.join(parts)}")


def outcome_lines(outcome: Outcome) -> Iterator[Line]:
    numbers = outcome.numbers
    line = f"{outcome.criterion}: {format_verdict(outcome)}"
    if numbers and outcome.verdict is not Verdict.NOT_COMPARABLE:
        line += f", {format_change(numbers)}"
        if interval := format_interval(numbers):
            line += f" (95% interval {interval})"
    yield Line(f"{_MARKS[outcome.verdict]} ", line)
    if outcome.reason:
        yield Line("    ", outcome.reason)
    if numbers:
        sides = [format_value(side, numbers.unit) for side in (numbers.base, numbers.new)]
        is_compared = numbers.p is not None and outcome.verdict is not Verdict.NOT_COMPARABLE
        p = "" if not is_compared else f"; p {numbers.p:.2g}"
        yield Line("    ", f"{sides[0]} -> {sides[1]}{p}")
    for cause in outcome.causes:
        place = f"{format_delta(cause.delta_ns)} {format_place(cause)}"
        yield Line("    ", place + format_kernels(cause, str, "->"))


def _setup(gate: Gate) -> Iterator[Line]:
    found = listed_differences(gate)
    if not found:
        return
    yield Line("", "")
    yield Line("  ", "set-up that differs:")
    for one in found[:_MOST_DIFFERENCES]:
        forbids = ", forbids a verdict" if one.effect is Effect.FORBIDS else ""
        sides = " -> ".join(format_sides(one))
        yield Line("    ", f"{one.name}: {sides}{forbids}")
    if (more := len(found) - _MOST_DIFFERENCES) > 0:
        yield Line("    ", f"and {more} more; --format json has all")


_SIGNS = {
    Verdict.REGRESSION: "❌",
    Verdict.NOT_COMPARABLE: "🚫",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.NO_REGRESSION: "✅",
}
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
            yield from _causes(outcome)
    yield from _setup_section(listed_differences(gate))
    yield from _details(gate)


def _cells(outcome: Outcome) -> Iterator[str]:
    yield code(str(outcome.criterion)).replace("|", "\\|")
    numbers = outcome.numbers
    if numbers is None:
        yield from ("", "", "", "")
    else:
        yield _escaped(format_value(numbers.base, numbers.unit))
        yield _escaped(format_value(numbers.new, numbers.unit))
        is_compared = outcome.verdict is not Verdict.NOT_COMPARABLE
        yield _escaped(format_change(numbers)) if is_compared else ""
        yield _escaped(format_interval(numbers)) if is_compared else ""
    reason = f"; {_escaped(outcome.reason)}" if outcome.reason else ""
    yield f"{_SIGNS[outcome.verdict]} {format_verdict(outcome)}{reason}"


def _causes(outcome: Outcome) -> Iterator[str]:
    yield from ("", f"What made {code(outcome.criterion.name)} worse:", "")
    for cause in outcome.causes:
        place = f"- **{_escaped(format_delta(cause.delta_ns))}** {code(format_place(cause))}"
        yield place + format_kernels(cause, code, "→")


def _setup_section(found: list[Difference]) -> Iterator[str]:
    if not found:
        return
    yield from ("", "Set-up that differs:", "")
    yield from map(_difference, found[:_MOST_UNFOLDED])
    if rest := found[_MOST_UNFOLDED:]:
        yield from ("", f"<details><summary>{len(rest)} more</summary>", "")
        yield from map(_difference, rest[:_MOST_FOLDED])
        yield from ("", "</details>")


def _difference(one: Difference) -> str:
    sides = [code(side) for side in format_sides(one)]
    return f"- {code(one.name)} ({one.effect}): {sides[0]} → {sides[1]}"


def _details(gate: Gate) -> Iterator[str]:
    yield from ("", "<details><summary>Runs and method</summary>", "")
    for name, side in (("base", gate.base), ("new", gate.new)):
        runs = ", ".join(code(run) for run in side.runs[:_MOST_FOLDED])
        yield f"- {name}: {runs}"
    for part in coverage(gate):
        yield f"- compared: {_escaped(part)}"
    yield "- Each run counts once. The change is the Hodges-Lehmann estimate of the medians of the"
    yield "  runs, with its exact 95% interval. Regressions hold for all criteria together (Holm)."
    yield from ("", "</details>")


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
        "setup": [asdict(one) | {"effect": str(one.effect)} for one in gate.differences],
        "base": asdict(gate.base),
        "new": asdict(gate.new),
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
        "numbers": outcome.numbers and asdict(outcome.numbers),
        "causes": [asdict(one) for one in outcome.causes],
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
    """A JUnit document with a test case for each criterion."""
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
    lines = "\n".join(f"{line.before}{line.text}" for line in outcome_lines(outcome))
    if outcome.verdict is Verdict.NO_REGRESSION:
        ET.SubElement(case, "system-out").text = printable(lines)
        return
    is_regression = outcome.verdict is Verdict.REGRESSION
    numbers = outcome.numbers
    message = outcome.reason or (format_change(numbers) if numbers else "")
    ET.SubElement(
        case,
        "failure" if is_regression else "error",
        {"type": str(outcome.verdict), "message": one_line(f"{outcome.verdict}: {message}")},
    ).text = printable(lines)
