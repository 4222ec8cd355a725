"""traceql gate: what fails, what passes, and what is said to be unknown."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import databases
import pytest
import yaml
from command_line import PROGRAM, called, process, refusal
from comparisons import PLANTED
from repeats import LOUD, OTHER_LOUD, OTHER_QUIET, QUIET, saved, side
from scaled_runs import EXAMPLE

from traceql.compare.shift import LEAST_RUNS
from traceql.compare.sides import Run, runs_of
from traceql.errors import CriterionInvalid, TraceqlError
from traceql.gate import document, junit, markdown, text
from traceql.gate.criterion import criteria, criterion
from traceql.gate.decision import gate, least_runs, smallest_p
from traceql.gate.metrics import metrics
from traceql.gate.outcome import Gate, Outcome, Verdict

_LAYERS = databases.ROOT / "traceql" / "layers"
_DOCUMENT = databases.ROOT / "docs" / "gate.md"
_WORKFLOW = databases.ROOT / "docs" / "examples" / "gate-workflow.yml"
_CONFIG = databases.ROOT / "docs" / "examples" / "traceql-gate.toml"
_SLOWER_DECODE = {"gate_up_proj": 1.12}  # the decode step takes 4% longer


def decided(
    base: Sequence[Run], new: Sequence[Run], *texts: str, accept: Sequence[str] = ()
) -> Gate:
    return gate(base, new, criteria(texts), accept=accept)


def outcome(base: Sequence[Run], new: Sequence[Run], criterion: str) -> Outcome:
    (found,) = decided(base, new, criterion).outcomes
    return found


# What is decided.


def test_a_slower_kernel_is_a_regression_and_its_role_is_named() -> None:
    found = outcome(side(), side(OTHER_QUIET, roles=_SLOWER_DECODE), "decode.step > 2%")
    assert found.verdict is Verdict.REGRESSION
    assert found.numbers
    assert found.numbers.change_pct == pytest.approx(4.0, abs=0.1)
    assert found.numbers.p == pytest.approx(2 / 252)
    (cause,) = found.causes
    assert (cause.part, cause.role) == ("computing", "gate_up_proj")
    # The step got 4% longer, and nothing else of it did.
    assert cause.delta_ns == pytest.approx(found.numbers.new - found.numbers.base, rel=0.02)
    assert cause.new_kernels == ("nvjet_sm90_tst_192x8_64x8_2x1_v_bz_TNT",)


def test_the_same_change_passes_where_the_limit_is_larger() -> None:
    new = side(OTHER_QUIET, roles=_SLOWER_DECODE)
    assert outcome(side(), new, "decode.step > 5%").verdict is Verdict.NO_REGRESSION


def test_a_change_below_the_limit_is_no_regression_though_it_is_beyond_chance() -> None:
    found = outcome(side(), side(OTHER_QUIET, slower=1.01), "decode.step > 2%")
    assert found.verdict is Verdict.NO_REGRESSION
    assert found.numbers
    assert found.numbers.low_pct
    assert found.numbers.low_pct > 0
    assert not found.improved


def test_an_improvement_passes_and_is_told() -> None:
    answer = decided(side(), side(OTHER_QUIET, slower=0.9), "decode.step > 2%")
    assert answer.exit_status == 0
    assert answer.outcomes[0].improved
    assert "✓ decode.step > 2%: improvement, -9.96%" in text.text(answer)


def test_noise_is_inconclusive_and_says_how_many_runs_would_do() -> None:
    found = outcome(side(LOUD), side(OTHER_LOUD), "decode.step > 8%")
    assert found.verdict is Verdict.NO_REGRESSION
    found = outcome(side(LOUD), side(OTHER_LOUD), "decode.step > 5%")
    assert (found.verdict, found.runs_needed) == (Verdict.INCONCLUSIVE, 6)
    assert found.reason == "it may be more than 5%; 6 runs on each side would do"
    found = outcome(side(LOUD), side(OTHER_LOUD), "decode.step > 1%")
    assert (found.verdict, found.runs_needed) == (Verdict.INCONCLUSIVE, None)
    assert found.reason == "it may be more than 1%; more than 50 runs on each side are needed"


def test_a_change_that_may_be_chance_is_inconclusive() -> None:
    found = outcome(side(LOUD), side(OTHER_LOUD, slower=1.03), "decode.step > 2%")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == "it may be chance; 6 runs on each side would do"


@pytest.mark.parametrize(("base", "new"), [(1, 1), (3, 5), (5, 3)])
def test_with_fewer_than_four_runs_there_is_no_verdict(base: int, new: int) -> None:
    found = outcome(side(QUIET[:base]), side(OTHER_QUIET[:new], slower=2), "decode.step > 2%")
    assert (found.verdict, found.runs_needed) == (Verdict.INCONCLUSIVE, LEAST_RUNS)
    assert found.numbers
    assert found.numbers.p is None
    assert found.numbers.change_pct > 90


def test_four_runs_are_enough() -> None:
    new = side(OTHER_QUIET[:4], slower=1.04)
    assert outcome(side(QUIET[:4]), new, "step > 2%").verdict is Verdict.REGRESSION


def test_a_lower_throughput_is_the_regression() -> None:
    faster, slower = side(OTHER_QUIET, slower=0.9), side(OTHER_QUIET, slower=1.1)
    found = outcome(side(), slower, "tokens_per_second < -5%")
    assert found.verdict is Verdict.REGRESSION
    assert found.numbers
    assert found.numbers.change_pct < -5
    found = outcome(side(), faster, "tokens_per_second < -5%")
    assert (found.verdict, found.improved) == (Verdict.NO_REGRESSION, True)


def test_latencies_of_requests_can_be_gated() -> None:
    base = side(latencies={"ttft": 5e7})
    new = side(OTHER_QUIET, slower=1.1, latencies={"ttft": 5e7})
    assert outcome(base, new, "ttft > 5%").verdict is Verdict.REGRESSION


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


# All criteria at once.


def test_holm_asks_for_more_where_more_is_gated() -> None:
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


def test_holm_that_no_result_could_pass_is_told_with_the_number_of_runs() -> None:
    roles = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "attention", "act", "lm_head")
    texts = [f"decode.{role} > 2%" for role in roles]
    answer = decided(side(), side(OTHER_QUIET, slower=1.1), *texts)
    assert {found.verdict for found in answer.outcomes} == {Verdict.INCONCLUSIVE}
    assert {found.runs_needed for found in answer.outcomes} == {6}
    assert answer.notes == (
        "With 5 and 5 runs, no regression can be shown in 7 criteria at once: the smallest p is "
        "0.0079, and Holm's correction asks for 0.0071. It takes 6 runs on each side, or fewer "
        "criteria.",
    )
    assert decided(side(), side(OTHER_QUIET, slower=1.1), *texts[1:]).exit_status == 1


def test_that_all_pass_needs_no_correction() -> None:
    texts = [f"decode.{name} > 2%" for name in metrics() if metrics()[name].kind == "role"]
    every = decided(side(), side(OTHER_QUIET), *texts).outcomes
    known = [str(one.criterion) for one in every if one.numbers]
    assert len(known) > 10
    assert decided(side(), side(OTHER_QUIET), *known).exit_status == 0


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
    new = side(OTHER_QUIET, roles=_SLOWER_DECODE)
    assert decided(side(), new, *texts).exit_status == status


def test_smallest_p_values_are_those_of_the_exact_test() -> None:
    assert [round(smallest_p(n, n), 3) for n in (3, 4, 5)] == [0.1, 0.029, 0.008]
    assert [least_runs(tests) for tests in (1, 2, 6, 7, 23)] == [4, 5, 5, 6, 6]


# What cannot be compared is never a pass.


def test_another_gpu_is_not_comparable_unless_accepted() -> None:
    base, new = side(), side(OTHER_QUIET, facts={"gpu.name": "NVIDIA H100"})
    found = outcome(base, new, "decode.step > 2%")
    assert (found.verdict, found.reason) == (Verdict.NOT_COMPARABLE, "other GPU")
    assert decided(base, new, "decode.step > 2%", accept=["gpu.name"]).exit_status == 0


def test_runs_of_one_side_with_two_gpus_are_no_repeats() -> None:
    mixed = [*side(QUIET[:3]), *side(QUIET[3:], facts={"gpu.name": "H100"})]
    other = [*side(OTHER_QUIET[:3]), *side(OTHER_QUIET[3:], facts={"gpu.name": "H100"})]
    assert outcome(mixed, other, "step > 2%").verdict is Verdict.NOT_COMPARABLE


def test_a_failed_ledger_is_not_comparable() -> None:
    broken = {"ledger.lost": "kernel"}
    found = outcome(side(facts=broken), side(OTHER_QUIET, facts=broken), "decode.step > 2%")
    assert (found.verdict, found.reason) == (Verdict.NOT_COMPARABLE, "other ledger")


def test_latencies_of_another_workload_are_not_comparable_unless_accepted() -> None:
    base = side(latencies={"ttft": 5e7}, facts={"workload.concurrency": "4"})
    new = side(OTHER_QUIET, latencies={"ttft": 5e7}, facts={"workload.concurrency": "8"})
    found = outcome(base, new, "ttft > 5%")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.startswith("other workload (workload.concurrency)")
    assert outcome(base, new, "decode.step > 5%").verdict is Verdict.NO_REGRESSION
    assert decided(base, new, "ttft > 5%", accept=["workload"]).exit_status == 0


@pytest.mark.parametrize(
    ("without", "criterion", "reason"),
    [
        (("base", "new"), "prefill.step > 2%", "neither side has prefill steps"),
        (("new",), "prefill.step > 2%", "new has no prefill steps"),
        (("base",), "prefill.step > 2%", "base has no prefill steps"),
    ],
)
def test_a_phase_that_a_side_lacks_is_not_comparable(
    without: Sequence[str], criterion: str, reason: str
) -> None:
    base = side(without=["prefill"] if "base" in without else [])
    new = side(OTHER_QUIET, without=["prefill"] if "new" in without else [])
    found = outcome(base, new, criterion)
    assert (found.verdict, found.reason) == (Verdict.NOT_COMPARABLE, reason)


def test_too_little_in_common_is_not_comparable() -> None:
    new = side(OTHER_QUIET, without=["mixed", "prefill"])
    found = outcome(side(), new, "step > 2%")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.startswith("only 28% of the time of base's steps is compared")
    assert outcome(side(), new, "decode.step > 2%").verdict is Verdict.NO_REGRESSION


@pytest.mark.parametrize(
    ("criterion", "reason"),
    [
        ("exposed_comm > 5%", "no run has exposed_comm in its steps"),
        ("decode.topk > 5%", "no run has topk in its decode steps"),
        ("ttft > 5%", "neither side has ttft"),
        ("decode.input_norm+mlp_allreduce > 5%", "no run has input_norm+mlp_allreduce in its"),
    ],
)
def test_a_metric_that_no_run_has_is_not_comparable(criterion: str, reason: str) -> None:
    found = outcome(side(), side(OTHER_QUIET), criterion)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.startswith(reason)


def test_a_latency_that_one_run_does_not_tell_is_not_comparable() -> None:
    new = [*side(OTHER_QUIET[:4], latencies={"ttft": 5e7}), *side((1.004,))]
    found = outcome(side(latencies={"ttft": 5e7}), new, "ttft > 5%")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.startswith("not every run has ttft")
    found = outcome(side(latencies={"ttft": 5e7}), side(OTHER_QUIET), "ttft > 5%")
    assert found.reason == "new has no ttft"


def test_a_role_that_one_run_lacks_is_not_comparable() -> None:
    new = [*side(OTHER_QUIET[:4]), *side((1.004,), roles={"rope": 0})]
    found = outcome(side(), new, "decode.rope > 5%")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "new has no kernels of rope in the median of decode steps"


def test_waiting_is_unknown_where_a_rank_is_missing() -> None:
    parts = {"exposed_comm": 0.1, "exposed_wait": 0.05}
    new = side(OTHER_QUIET, parts={"exposed_comm": 0.1, "exposed_unmatched": 0.1})
    found = outcome(side(parts=parts), new, "decode.exposed_wait > 5%")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.endswith("use exposed_comm")
    assert decided(side(parts=parts), new, "decode.exposed_comm > 5%").exit_status == 0


def test_a_recording_counts_once() -> None:
    runs = side()
    with pytest.raises(TraceqlError, match="run0 and run0 are the same recording"):
        decided(runs, [*side(OTHER_QUIET), runs[0]], "step > 2%")
    with pytest.raises(TraceqlError, match="are the same recording"):
        decided([*runs, runs[3]], side(OTHER_QUIET), "step > 2%")


def test_no_criterion_is_an_error() -> None:
    with pytest.raises(TraceqlError, match="there is no criterion"):
        decided(side(), side(OTHER_QUIET))


# Criteria.


@pytest.mark.parametrize(
    ("written", "scope", "metric", "limit"),
    [
        ("decode.step > 2%", "decode", "step", 2),
        ("exposed_comm>5 %", "all", "exposed_comm", 5),
        ("all.step > 2.5%", "all", "step", 2.5),
        ("idle.host > 3%", "all", "idle.host", 3),
        ("decode.idle.host > 3%", "decode", "idle.host", 3),
        ("idle.step > 3%", "idle", "step", 3),
        ("mixed.qkv_proj > +1%", "mixed", "qkv_proj", 1),
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
        ("decode.step", "is no criterion; write METRIC > X%"),
        ("", "is no criterion"),
        ("decode.step > 2", 'has no percent sign; write "decode.step > 2%"'),
        ("decode.step > nan%", "is no criterion"),
        ("decode.step > 2% ; x", "is no criterion"),
        (
            "decode.stepp > 2%",
            "there is no metric 'stepp'; did you mean 'decode.step' or 'decode.other_step'?",
        ),
        ("decode.tpott > 2%", "there is no metric 'tpott'; did you mean 'tpot'?"),
        ("decod.step > 2%", "there is no phase 'decod'; did you mean 'decode'?"),
        ("decode.ttft > 2%", "ttft is of whole runs"),
        ("gpu_time > 2%", "there is no metric 'gpu_time'; there are step, interval,"),
        ("step > 0%", "a limit of 0%"),
        ("decode.step < -2%", 'less decode.step is no regression; write "decode.step > 2%"'),
        ("decode.step > -2%", 'write "decode.step > 2%"'),
        ("decode.step < 2%", 'write "decode.step > 2%"'),
        ("tokens_per_second > 5%", 'write "tokens_per_second < -5%"'),
        ("tokens_per_second < -100%", "cannot fall by 100%"),
    ],
)
def test_a_wrong_criterion_is_one_line_that_says_what_is_meant(written: str, told: str) -> None:
    with pytest.raises(CriterionInvalid) as error:
        criterion(written)
    assert told in str(error.value)


def test_two_criteria_about_one_metric_are_an_error() -> None:
    with pytest.raises(CriterionInvalid, match="two criteria are about step"):
        criteria(["step > 2%", "all.step > 3%"])


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


# The command line.


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the baselines base, same, slower, loud and other_gpu."""
    monkeypatch.chdir(tmp_path)
    saved(Path("base"), side())
    saved(Path("same"), side(OTHER_QUIET))
    saved(Path("slower"), side(OTHER_QUIET, roles=_SLOWER_DECODE))
    saved(Path("loud"), side(OTHER_LOUD))
    saved(Path("other_gpu"), side(OTHER_QUIET, facts={"gpu.name": "NVIDIA H100"}))
    return tmp_path


@pytest.mark.parametrize(
    ("new", "status", "first"),
    [
        ("same", 0, "✓ no regression in 1 criterion (5 runs of base, 5 of new)"),
        ("slower", 1, "✗ regression in 1 criterion (5 runs of base, 5 of new)"),
        ("loud", 3, "? inconclusive in 1 criterion (5 runs of base, 5 of new)"),
        ("other_gpu", 3, "✗ not comparable in 1 criterion (5 runs of base, 5 of new)"),
    ],
)
def test_the_exit_status_and_the_first_line_are_the_answer(
    sides: Path, new: str, status: int, first: str
) -> None:
    done = called("gate", "base", new, "--fail-on", "decode.step > 2%")
    assert (done.returncode, done.stderr) == (status, b"")
    assert done.stdout.decode().splitlines()[0] == first


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("gate base nowhere --fail-on 'step > 2%'", "nowhere does not exist"),
        ("gate base same --fail-on 'stepp > 2%'", "there is no metric 'stepp'"),
        ("gate base same", "there is no criterion; add --fail-on"),
        ("gate same --fail-on 'step > 2%'", "name BASE too, or a baseline"),
        ("gate --fail-on 'step > 2%'", "name BASE and NEW"),
        ("gate base same slower --fail-on 'step > 2%'", "name BASE and NEW, or each run"),
        ("gate base same --new slower --fail-on 'step > 2%'", "not both"),
        ("gate base base --fail-on 'step > 2%'", "are the same recording"),
        ("gate base same --fail-on 'step > 2%' --write gate.html", "gate.html has none of"),
        ("gate base same --fail-on 'step > 2%' --write no/gate.md", "cannot write no/gate.md"),
        ("gate base same --fail-on 'step > 2%' --config no.toml", "cannot read no.toml"),
        ("gate base same --fail-on 'step > 2%' --format yaml", "Invalid value for '--format'"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_never_looks_like_a_regression(
    sides: Path, words: str, told: str
) -> None:
    done = called(*shlex.split(words))
    assert done.returncode == 2
    assert told in done.stderr.decode().splitlines()[-1]


def test_a_closed_output_is_no_regression(sides: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["gate", "base", "same", "--fail-on", "step > 2%"]
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run([sys.executable, "-c", PROGRAM, *words], stdout=pipe, check=False)
    assert done.returncode == 2


def test_an_error_that_nobody_expected_is_no_regression(
    sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("traceql.gate.decision.gate", broken)
    done = called("gate", "base", "same", "--fail-on", "step > 2%")
    assert done.returncode == 2
    assert b"ZeroDivisionError" in done.stderr


def test_each_run_can_be_named(sides: Path) -> None:
    for number, run in enumerate(side(OTHER_QUIET)):
        saved(Path(f"run{number}"), [run])
    news = [word for number in range(5) for word in ("--new", f"run{number}")]
    for words in (["--base", "base", *news], [*news, "--base", "base"]):
        assert called("gate", *words, "--fail-on", "step > 2%").returncode == 0
    assert called("gate", "--base", "base", "slower", "--fail-on", "step > 2%").returncode == 1


def test_the_answer_can_be_written_in_several_forms_at_once(sides: Path) -> None:
    files = ["gate.md", "gate.xml", "gate.json", "gate.txt"]
    words = [word for file in files for word in ("--write", file)]
    done = called("gate", "base", "slower", "--fail-on", "decode.step > 2%", *words)
    assert done.returncode == 1
    for file, form in zip(files, ("markdown", "junit", "json", "text"), strict=True):
        same = called("gate", "base", "slower", "--fail-on", "decode.step > 2%", "--format", form)
        written = Path(file).read_text(encoding="utf-8")
        assert written == same.stdout.decode(), form
    assert done.stdout.decode() == Path("gate.txt").read_text(encoding="utf-8")


def test_an_answer_that_cannot_be_written_leaves_no_part_of_it(sides: Path) -> None:
    Path("gate.md").write_text("old", encoding="utf-8")
    words = ["gate", "base", "nowhere", "--fail-on", "step > 2%", "--write", "gate.md"]
    assert called(*words).returncode == 2
    assert Path("gate.md").read_text(encoding="utf-8") == "old"


def test_either_all_files_of_an_answer_are_written_or_none(sides: Path) -> None:
    files = ["--write", "gate.md", "--write", "no/gate.xml"]
    done = called("gate", "base", "slower", "--fail-on", "step > 2%", *files)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith("traceql: cannot write no/gate.xml")
    assert not Path("gate.md").exists()


def test_help_says_what_the_exit_status_means() -> None:
    said = called("gate", "--help").stdout.decode()
    for line in ("0  every criterion", "1  a criterion", "2  the input", "3  inconclusive"):
        assert line in said


# traceql-gate.toml.


def test_the_file_of_the_repository_is_found_from_a_folder_below(
    sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sides / ".git").mkdir()
    below = sides / "a" / "b"
    below.mkdir(parents=True)
    (sides / "traceql-gate.toml").write_text(
        'fail_on = ["decode.step > 2%"]\nbaseline = "base"\n', encoding="utf-8"
    )
    monkeypatch.chdir(below)
    assert called("gate", "../../slower").returncode == 1
    assert called("gate", "../../same").returncode == 0
    # The command line counts more than the file.
    assert called("gate", "../../slower", "--fail-on", "step > 9%").returncode == 0
    assert called("gate", "../../slower", "../../same").returncode == 0


def test_a_file_above_the_repository_does_not_count(
    sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sides / "traceql-gate.toml").write_text('fail_on = ["step > 2%"]\n', encoding="utf-8")
    inside = sides / "repository"
    (inside / ".git").mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert "there is no criterion" in refusal("gate", "../base", "../same", status=2)


def test_a_difference_can_be_accepted_in_the_file(sides: Path) -> None:
    content = 'fail_on = ["step > 2%"]\nbaseline = "base"\naccept = ["gpu.name"]\n'
    Path("mine.toml").write_text(content, encoding="utf-8")
    assert called("gate", "other_gpu", "--config", "mine.toml").returncode == 0
    done = called("gate", "other_gpu", "--config", "mine.toml", "--accept", "model")
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("fail_om = []", "unknown key 'fail_om'; did you mean 'fail_on'?"),
        ("threshold = 2", "unknown key 'threshold'; there are fail_on, accept, baseline"),
        ('fail_on = "step > 2%"', "fail_on is not a list of texts"),
        ("fail_on = [2]", "fail_on is not a list of texts"),
        ("accept = true", "accept is not a list of texts"),
        ('fail_on = ["step > 2"]', "'step > 2' has no percent sign"),
        ("baseline = 3", "baseline is not the name of a folder"),
        ('baseline = ""', "baseline is not the name of a folder"),
        ("fail_on = [", "is no TOML"),
        ('fail_on = ["step > 2%"]\nbaseline = "nowhere"', "nowhere is not a baseline"),
        ('fail_on = ["step > 2%"]\nbaseline = "."', "is not a baseline"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_what_is_wrong(
    sides: Path, content: str, told: str
) -> None:
    Path("traceql-gate.toml").write_text(content, encoding="utf-8")
    assert told in refusal("gate", "same", status=2)


# The forms of the answer.

_NASTY = "]]><script>|`a`` \x1b[31m @all *b*\n"


def nasty() -> Gate:
    facts = {"version.vllm": _NASTY, "version.torch": "1"}
    other = {"version.vllm": "2", "version.torch": "2"}
    base, new = side(facts=facts, name=_NASTY), side(OTHER_QUIET, roles=_SLOWER_DECODE, facts=other)
    return decided(base, new, "decode.step > 2%", "mixed.step > 9%", "exposed_comm > 2%")


def test_junit_has_a_case_for_each_criterion_and_no_unknown_one_is_a_pass() -> None:
    root = ET.fromstring(junit.junit(nasty()))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    for element in (root, suite):
        counts = [element.get(key) for key in ("tests", "failures", "errors", "skipped")]
        assert counts == ["3", "1", "1", "0"]
    cases = suite.findall("testcase")
    assert [(case.get("name"), case.get("classname")) for case in cases] == [
        ("decode.step > 2%", "traceql.gate"),
        ("mixed.step > 9%", "traceql.gate"),
        ("exposed_comm > 2%", "traceql.gate"),
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
    (case,) = ET.fromstring(junit.junit(unknown)).iter("testcase")
    assert [(child.tag, child.get("type")) for child in case] == [("error", "inconclusive")]


def test_json_has_the_documented_keys() -> None:
    found = json.loads(document.json_text(nasty()))
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
    lines = markdown.markdown(nasty()).splitlines()
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
    shown = markdown.markdown(answer)
    assert "\x1b" not in shown
    # Three ticks around two: all of the name is code.
    assert "``` ]]><script>|`a`` \\x1b[31m @all *b* or" not in shown
    (line,) = [one for one in shown.splitlines() if one.startswith("- `version.vllm`")]
    assert line == ("- `version.vllm` (notes): ```]]><script>|`a`` \\x1b[31m @all *b*``` → `2`")
    assert "\x1b" not in text.text(answer)
    assert "]]><script>" in "".join(ET.fromstring(junit.junit(answer)).itertext())
    assert json.loads(document.json_text(answer))["setup"]


def test_a_note_stands_in_every_form() -> None:
    roles = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "attention", "act", "lm_head")
    answer = decided(side(), side(OTHER_QUIET), *(f"decode.{role} > 2%" for role in roles))
    for form in (text.text, markdown.markdown, junit.junit, document.json_text):
        assert "no regression can be shown in 7 criteria at once" in form(answer), form


# The example for GitHub.


def test_the_commands_of_the_example_workflow_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traceql-gate.toml").write_text(_CONFIG.read_text("utf-8"), "utf-8")
    jobs = yaml.safe_load(_WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    steps = [step for name in ("baseline", "gate") for step in jobs[name]["steps"]]
    commands = [
        shlex.split(line)
        for step in steps
        for line in step.get("run", "").splitlines()
        if line.startswith("traceql ")
    ]
    assert [words[1] for words in commands] == ["baseline", "baseline", "gate"]
    save, show, decide = (words[1:] for words in commands)
    assert {"runs", "traceql-baseline"} <= {*save, *decide, "traceql-baseline"}
    saved(tmp_path / "runs", side())
    for words in (save, show):
        assert called(*words).returncode == 0, words
    for new, status in ((side(OTHER_QUIET), 0), (side(OTHER_QUIET, slower=1.1), 1)):
        for file in (tmp_path / "runs").iterdir():
            file.unlink()
        saved(tmp_path / "runs", new)
        done = called(*decide)
        assert done.returncode == status, done.stderr
        for name in ("gate.md", "gate.xml", "gate.json"):
            assert (tmp_path / name).stat().st_size > 0


def test_the_document_has_every_metric_and_the_examples() -> None:
    told = _DOCUMENT.read_text(encoding="utf-8")
    for name in metrics():
        assert f"`{name}`" in told, name
    assert _CONFIG.read_text(encoding="utf-8") in told
    assert "gate-workflow.yml" in told


@pytest.mark.parametrize(
    ("base", "new", "criterion"),
    [
        ("tp1", "tp1-slow-layer5-down_proj", "decode.down_proj > 2%"),
        ("tp2", "tp2-busy-host-of-rank1", "decode.exposed_wait > 5%"),
        ("tp2", "tp2-piecewise-graphs", "decode.step > 5%"),
    ],
)
def test_a_planted_change_of_recorded_starts_is_a_regression(
    base: str, new: str, criterion: str
) -> None:
    answer = decided(runs_of([PLANTED / base]), runs_of([PLANTED / new]), criterion)
    assert answer.outcomes[0].verdict is Verdict.REGRESSION
    assert answer.outcomes[0].causes


def test_a_faster_dtype_of_recorded_starts_passes() -> None:
    base, new = (runs_of([PLANTED / name]) for name in ("tp1", "tp1-fp8"))
    answer = decided(base, new, "decode.step > 2%")
    assert answer.exit_status == 0
    assert answer.outcomes[0].improved


@pytest.mark.slow
def test_recorded_runs_are_compared(tmp_path: Path) -> None:
    example = databases.EXAMPLES / EXAMPLE
    other = databases.EXAMPLES / "qwen3-8b-tp2-batch16"
    done = process("gate", example, other, "--fail-on", "decode.step > 2%")
    assert done.returncode == 3, done.stderr
    assert "decode.step > 2%: not comparable\n    other " in done.stdout.decode()
