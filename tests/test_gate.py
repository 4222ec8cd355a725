"""What a gate decides: what fails, what passes, and what is said to be unknown."""

import csv
import json
import tomllib
from collections.abc import Sequence
from xml.etree import ElementTree as ET

import databases
import pytest
from repeats import LOUD, OTHER_LOUD, OTHER_QUIET, QUIET, SLOWER_DECODE, decided, outcome, side

from traceql.errors import CriterionInvalid
from traceql.runs.compare.verdict import LEAST_RUNS
from traceql.runs.gate.criterion import criterion, metrics
from traceql.runs.gate.decision import Gate, Verdict
from traceql.runs.gate.reports import as_json, as_junit, as_markdown, as_text


@pytest.mark.slow
def test_a_slower_kernel_is_a_regression_and_its_role_is_named() -> None:
    found = outcome(side(), side(OTHER_QUIET, roles=SLOWER_DECODE), "decode.step > 2%")
    assert found.verdict is Verdict.REGRESSION
    assert found.numbers
    assert found.numbers.change_pct == pytest.approx(4.0, abs=0.1)
    assert found.numbers.p == pytest.approx(2 / 252)
    (cause,) = found.causes
    assert (cause.part, cause.role) == ("computing", "gate_up_proj")
    # The step got 4% longer, and nothing else of it did.
    assert cause.delta_ns == pytest.approx(found.numbers.new - found.numbers.base, rel=0.02)
    assert cause.new_kernels == ("nvjet_sm90_tst_192x8_64x8_2x1_v_bz_TNT",)


@pytest.mark.slow
def test_a_change_below_the_limit_is_no_regression_though_it_is_beyond_chance() -> None:
    found = outcome(side(), side(OTHER_QUIET, slower=1.01), "decode.step > 2%")
    assert found.verdict is Verdict.NO_REGRESSION
    assert found.numbers
    assert (found.numbers.low_pct or 0) > 0


@pytest.mark.slow
def test_noise_is_inconclusive_and_says_how_many_runs_would_do() -> None:
    found = outcome(side(LOUD), side(OTHER_LOUD), "decode.step > 8%")
    assert found.verdict is Verdict.NO_REGRESSION
    found = outcome(side(LOUD), side(OTHER_LOUD), "decode.step > 5%")
    assert (found.verdict, found.runs_needed) == (Verdict.INCONCLUSIVE, 6)
    assert found.reason == "it may be more than 5%; 6 runs on each side would decide"
    found = outcome(side(LOUD), side(OTHER_LOUD), "decode.step > 1%")
    assert (found.verdict, found.runs_needed) == (Verdict.INCONCLUSIVE, None)
    assert found.reason == "it may be more than 1%; more than 50 runs on each side are needed"


@pytest.mark.slow
@pytest.mark.parametrize(("base", "new"), [(3, 5), (5, 3)])
def test_with_fewer_than_four_runs_there_is_no_verdict(base: int, new: int) -> None:
    found = outcome(side(QUIET[:base]), side(OTHER_QUIET[:new], slower=2), "decode.step > 2%")
    assert (found.verdict, found.runs_needed) == (Verdict.INCONCLUSIVE, LEAST_RUNS)
    assert found.numbers
    assert found.numbers.p is None
    assert found.numbers.change_pct > 90


@pytest.mark.slow
def test_a_lower_throughput_is_the_regression() -> None:
    faster, slower = side(OTHER_QUIET, slower=0.9), side(OTHER_QUIET, slower=1.1)
    found = outcome(side(), slower, "tokens_per_second < -5%")
    assert found.verdict is Verdict.REGRESSION
    assert found.numbers
    assert found.numbers.change_pct < -5
    found = outcome(side(), faster, "tokens_per_second < -5%")
    assert (found.verdict, found.improved) == (Verdict.NO_REGRESSION, True)


@pytest.mark.slow
def test_a_metric_that_base_does_not_have_is_counted_in_percent_of_the_step() -> None:
    new = side(OTHER_QUIET, parts={"exposed_comm": 0.06})
    found = outcome(side(), new, "decode.exposed_comm > 5%")
    assert found.verdict is Verdict.REGRESSION
    assert found.numbers
    assert found.numbers.percent_of == "step"
    assert found.numbers.change_pct == pytest.approx(6, abs=0.05)
    # What grows from nothing grows beyond any limit.
    assert outcome(side(), new, "decode.exposed_comm > 90%").verdict is Verdict.REGRESSION
    little = side(OTHER_QUIET, parts={"exposed_comm": 0.001})
    assert outcome(side(), little, "decode.exposed_comm > 5%").verdict is Verdict.NO_REGRESSION


@pytest.mark.slow
def test_holm_needs_more_where_more_is_gated() -> None:
    # p is 0.016: below 0.05 alone, but not below 0.05 / 4.
    base, new = side((1.00, 1.01, 1.02, 1.03, 1.06)), side((1.05, 1.07, 1.08, 1.09, 1.10))
    one = outcome(base, new, "decode.step > 1%")
    assert one.numbers
    assert one.numbers.p == pytest.approx(4 / 252)
    assert one.verdict is Verdict.REGRESSION
    texts = ["decode.step > 1%", "mixed.step > 1%", "prefill.step > 1%", "tokens_per_second < -1%"]
    several = decided(base, new, *texts)
    assert {found.verdict for found in several.outcomes} == {Verdict.INCONCLUSIVE}
    assert several.outcomes[0].reason.startswith("among 4 criteria at once, it may be chance; ")
    assert several.exit_status == 3
    assert several.notes == ()


@pytest.mark.slow
def test_holm_that_no_result_could_pass_is_reported_with_the_number_of_runs() -> None:
    roles = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "attention", "act", "lm_head")
    texts = [f"decode.{role} > 2%" for role in roles]
    answer = decided(side(), side(OTHER_QUIET, slower=1.1), *texts)
    assert {found.verdict for found in answer.outcomes} == {Verdict.INCONCLUSIVE}
    assert {found.runs_needed for found in answer.outcomes} == {6}
    for form in (as_text, as_markdown, as_junit, as_json):
        assert "no regression can be shown in 7 criteria at once" in form(answer), form
    assert decided(side(), side(OTHER_QUIET, slower=1.1), *texts[1:]).exit_status == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "status"),
    [
        (("decode.qkv_proj > 2%",), 0),
        (("decode.qkv_proj > 2%", "decode.step > 2%"), 1),
        (("decode.qkv_proj > 2%", "exposed_comm > 2%"), 3),
        (("exposed_comm > 2%", "decode.step > 2%"), 1),
    ],
)
def test_the_worst_criterion_decides(texts: Sequence[str], status: int) -> None:
    new = side(OTHER_QUIET, roles=SLOWER_DECODE)
    assert decided(side(), new, *texts).exit_status == status


@pytest.mark.slow
def test_another_gpu_and_a_failed_ledger_are_not_comparable_unless_accepted() -> None:
    h100, lost = {"gpu.name": "NVIDIA H100"}, {"ledger.lost": "kernel"}
    new = side(OTHER_QUIET, facts=h100)
    two_gpus = [[*side(one[:3]), *side(one[3:], facts=h100)] for one in (QUIET, OTHER_QUIET)]
    for base, other, reason in (
        (side(), new, "other GPU"),
        (side(facts=lost), side(OTHER_QUIET, facts=lost), "other ledger"),
        (two_gpus[0], two_gpus[1], "other GPU"),
    ):
        found = outcome(base, other, "decode.step > 2%")
        assert (found.verdict, found.reason) == (Verdict.NOT_COMPARABLE, reason)
    assert decided(side(), new, "decode.step > 2%", accept=["gpu.name"]).exit_status == 0


@pytest.mark.slow
def test_latencies_of_another_workload_are_not_comparable_unless_accepted() -> None:
    base = side(latencies={"ttft": 5e7}, facts={"workload.concurrency": "4"})
    new = side(OTHER_QUIET, latencies={"ttft": 5e7}, facts={"workload.concurrency": "8"})
    found = outcome(base, new, "ttft > 5%")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.startswith("other workload (workload.concurrency)")
    assert outcome(base, new, "decode.step > 5%").verdict is Verdict.NO_REGRESSION
    assert decided(base, new, "ttft > 5%", accept=["workload"]).exit_status == 0


@pytest.mark.slow
def test_what_a_side_or_a_run_lacks_is_not_comparable() -> None:
    timed = side(latencies={"ttft": 5e7})
    partly = [*side(OTHER_QUIET[:4], latencies={"ttft": 5e7}), *side((1.004,))]
    no_prefill = side(OTHER_QUIET, without=["prefill"])
    decode = side(OTHER_QUIET, without=["mixed", "prefill"])
    for base, new, text, reason in (
        (side(without=["prefill"]), no_prefill, "prefill.step > 2%", "neither side has prefill"),
        (side(), no_prefill, "prefill.step > 2%", "new has no prefill steps"),
        (side(), side(OTHER_QUIET), "exposed_comm > 5%", "no run has exposed_comm in its steps"),
        (side(), side(OTHER_QUIET), "decode.topk > 5%", "no run has topk in its decode steps"),
        (side(), side(OTHER_QUIET), "ttft > 5%", "neither side has ttft"),
        (timed, side(OTHER_QUIET), "ttft > 5%", "new has no ttft"),
        (timed, partly, "ttft > 5%", "not every run has ttft"),
        (side(), decode, "step > 2%", "only 28% of the time of base's steps is compared"),
    ):
        found = outcome(base, new, text)
        assert found.verdict is Verdict.NOT_COMPARABLE
        assert found.reason.startswith(reason)


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
    names = [case.get("name") for case in cases]
    assert names == ["decode.step > 2%", "mixed.step > 9%", "exposed_comm > 2%"]
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
    documented = (databases.ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    for key in {*found, *first, *first["numbers"], *first["causes"][0], *found["setup"][0]}:
        assert f"`{key}`" in documented, key


def test_markdown_begins_with_the_answer_and_has_one_table() -> None:
    lines = as_markdown(nasty()).splitlines()
    assert lines[0].startswith("### ❌ traceql gate: regression in 1 of 3 criteria")
    rows = [line for line in lines if line.startswith("|")]
    assert rows[0] == "| criterion | base | new | change | 95% interval | verdict |"
    assert len(rows) == 2 + 3
    assert {line.replace("\\|", "").count("|") for line in rows} == {7}


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


_LAYERS = databases.ROOT / "traceql" / "analysis" / "layers"


@pytest.mark.parametrize(
    ("written", "scope", "metric", "limit"),
    [
        ("decode.step > 2%", "decode", "step", 2),
        ("exposed_comm>5 %", "all", "exposed_comm", 5),
        ("idle.host > 3%", "all", "idle.host", 3),
        ("idle.step > 3%", "idle", "step", 3),
        ("input_norm+mlp_allreduce > 1%", "all", "input_norm+mlp_allreduce", 1),
        ("ttft > 10%", None, "ttft", 10),
        ("tokens_per_second < -5%", None, "tokens_per_second", 5),
    ],
)
def test_a_criterion_has_a_scope_a_metric_and_a_limit(
    written: str, scope: str | None, metric: str, limit: float
) -> None:
    found = criterion(written)
    assert (found.scope, found.metric.name, found.limit_pct) == (scope, metric, limit)
    assert criterion(str(found)) == found


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("decode.step", "is not a criterion; write METRIC > X%"),
        ("decode.step > 2", 'has no percent sign; write "decode.step > 2%"'),
        ("decode.stepp > 2%", "there is no metric 'stepp'; did you mean 'decode.step'"),
        ("decod.step > 2%", "there is no phase 'decod'; did you mean 'decode'?"),
        ("decode.ttft > 2%", "ttft is of whole runs"),
        ("step > 0%", "a limit of 0%"),
        ("decode.step < -2%", 'less decode.step is not a regression; write "decode.step > 2%"'),
        ("tokens_per_second > 5%", 'write "tokens_per_second < -5%"'),
    ],
)
def test_a_wrong_criterion_is_one_line_that_says_what_is_meant(written: str, told: str) -> None:
    with pytest.raises(CriterionInvalid) as error:
        criterion(written)
    assert told in str(error.value)


def test_every_role_is_a_metric() -> None:
    parts = tomllib.loads((_LAYERS / "parts.toml").read_text(encoding="utf-8")).values()
    outside = tomllib.loads((_LAYERS / "outside.toml").read_text(encoding="utf-8")).values()
    roles = {row[0] for part in parts for row in part["roles"] if row[0]}
    roles |= {row[0] for group in outside for row in group}
    for name, column in (("modules.csv", "role"), ("symbols.csv", "role_outside_layers")):
        with (_LAYERS / name).open(encoding="utf-8", newline="") as file:
            roles |= {row[column] for row in csv.DictReader(file) if row[column]}
    assert roles <= {one.name for one in metrics().values() if one.kind == "role"}


def test_every_metric_of_a_comparison_can_be_gated() -> None:
    found = side()[0].profile["metric"].to_pylist()
    assert {row["metric"] for row in found if row["kind"] != "root"} <= set(metrics())
