"""The forms of a gate's answer: JUnit XML, JSON, Markdown and text."""

import json
import re
from xml.etree import ElementTree as ET

import databases
import pytest
from gates import SLOWER_DECODE, decided
from repeats import LOUD, OTHER_LOUD, OTHER_QUIET, side

from traceql.runs.gate.outcome import Gate
from traceql.runs.gate.reports import as_json, as_junit, as_markdown, as_text

_DOCUMENT = databases.ROOT / "docs" / "gate.md"


_NASTY = "]]><script>|`a`` \x1b[31m @all *b*\n"


def nasty() -> Gate:
    facts = {"version.vllm": _NASTY, "version.torch": "1"}
    other = {"version.vllm": "2", "version.torch": "2"}
    base, new = side(facts=facts, name=_NASTY), side(OTHER_QUIET, roles=SLOWER_DECODE, facts=other)
    return decided(base, new, "decode.step > 2%", "mixed.step > 9%", "exposed_comm > 2%")


@pytest.mark.slow
def test_junit_has_a_case_for_each_criterion_and_no_unknown_one_is_a_pass() -> None:
    root = ET.fromstring(as_junit(nasty()))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    for element in (root, suite):
        counts = [element.get(key) for key in ("tests", "failures", "errors", "skipped")]
        assert counts == ["3", "1", "1", "0"]
    cases = suite.findall("testcase")
    assert [(case.get("name"), case.get("classname")) for case in cases] == [
        ("decode.step > 2%", "traceql.runs.gate"),
        ("mixed.step > 9%", "traceql.runs.gate"),
        ("exposed_comm > 2%", "traceql.runs.gate"),
    ]
    assert [[child.tag for child in case] for case in cases] == [
        ["failure"], ["system-out"], ["error"],
    ]  # fmt: skip
    (failure,) = cases[0]
    assert failure.get("type") == "regression"
    assert "gate_up_proj" in str(failure.text)
    (error,) = cases[2]
    assert error.get("message") == "not comparable: no run has exposed_comm in its steps"
    unknown = decided(side(LOUD), side(OTHER_LOUD), "step > 1%")
    (case,) = ET.fromstring(as_junit(unknown)).iter("testcase")
    assert [(child.tag, child.get("type")) for child in case] == [("error", "inconclusive")]


def test_json_has_the_documented_keys() -> None:
    found = json.loads(as_json(nasty()))
    assert list(found) == [
        "format", "traceql", "verdict", "exit_status", "criteria", "notes", "setup", "base", "new",
    ]  # fmt: skip
    assert (found["format"], found["verdict"], found["exit_status"]) == (1, "regression", 1)
    first, _, last = found["criteria"]
    assert list(first) == [
        "criterion", "scope", "metric", "limit_pct", "verdict", "improved", "reason",
        "runs_needed", "numbers", "causes",
    ]  # fmt: skip
    assert len(first["numbers"]["base_values"]) == 5
    assert last["numbers"] is None
    documented = _DOCUMENT.read_text(encoding="utf-8")
    for key in {*found, *first, *first["numbers"], *first["causes"][0], *found["setup"][0]}:
        assert f"`{key}`" in documented, key


def test_markdown_begins_with_the_answer_and_has_one_table() -> None:
    lines = as_markdown(nasty()).splitlines()
    assert lines[0].startswith("### ❌ traceql gate: regression in 1 of 3 criteria")
    rows = [line for line in lines if line.startswith("|")]
    assert rows[0] == "| criterion | base | new | change | 95% interval | verdict |"
    assert len(rows) == 2 + 3
    assert {line.replace("\\|", "").count("|") for line in rows} == {7}
    assert any(
        re.match(r"- \*\*\+21\d\.\d µs\*\* `computing, gate_up_proj`: `nvjet", line)
        for line in lines
    )
    assert len(lines) < 40


def test_names_of_traces_do_nothing_in_markdown_and_xml() -> None:
    answer = nasty()
    shown = as_markdown(answer)
    assert "\x1b" not in shown
    # Three ticks around two: all of the name is code.
    assert "``` ]]><script>|`a`` \\x1b[31m @all *b* or" not in shown
    (line,) = [one for one in shown.splitlines() if one.startswith("- `version.vllm`")]
    assert line == ("- `version.vllm` (notes): ```]]><script>|`a`` \\x1b[31m @all *b*``` → `2`")
    assert "\x1b" not in as_text(answer)
    assert "]]><script>" in "".join(ET.fromstring(as_junit(answer)).itertext())
    assert json.loads(as_json(answer))["setup"]


def test_a_note_stands_in_every_form() -> None:
    roles = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "attention", "act", "lm_head")
    answer = decided(side(), side(OTHER_QUIET), *(f"decode.{role} > 2%" for role in roles))
    for form in (as_text, as_markdown, as_junit, as_json):
        assert "no regression can be shown in 7 criteria at once" in form(answer), form
