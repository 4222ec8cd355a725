"""The answer of a gate as JUnit XML: a test case for each criterion.

What is inconclusive or not comparable is an error: a skipped test would be shown as passed.
"""

from xml.etree import ElementTree as ET

from traceql.runs.gate import text, words
from traceql.runs.gate.outcome import Gate, Outcome, Verdict
from traceql.util.printable import one_line, printable

_SUITE = "traceql gate"
_CLASS = "traceql.runs.gate"


def junit(gate: Gate) -> str:
    """The document, with its declaration."""
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
    ET.SubElement(suite, "system-out").text = printable(text.text(gate))
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return f"{document.decode()}\n"


def _case(suite: ET.Element, outcome: Outcome) -> None:
    name = {"name": str(outcome.criterion), "classname": _CLASS, "time": "0"}
    case = ET.SubElement(suite, "testcase", name)
    told = "\n".join(f"{line.before}{line.text}" for line in text.outcome_lines(outcome))
    if outcome.verdict is Verdict.NO_REGRESSION:
        ET.SubElement(case, "system-out").text = printable(told)
        return
    is_regression = outcome.verdict is Verdict.REGRESSION
    numbers = outcome.numbers
    message = outcome.reason or (words.change(numbers) if numbers else "")
    ET.SubElement(
        case,
        "failure" if is_regression else "error",
        {"type": str(outcome.verdict), "message": one_line(f"{outcome.verdict}: {message}")},
    ).text = printable(told)
