"""traceql advise: the answer, the table of layouts, and what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import output, refusal

import traceql
from traceql.plan.advise.layouts import Layout, decode, model_named
from traceql.plan.advise.machine import machine_named, with_points
from traceql.plan.advise.prediction import step_time
from traceql.plan.advise.role_times import RecordedTimes, recording

pytestmark = pytest.mark.slow

TP1, TP2 = "qwen3-8b-tp1-graph", databases.BATCH16
PEAKS = databases.EXAMPLES / TP2 / "peaks.json"
SHEET = ("advise", "--model", "qwen3-8b", "--gpu", "h200", "--gpus", "2")


@pytest.fixture(scope="module", autouse=True)
def predictions_are_asked_for_once() -> Iterator[None]:
    """The answers of whatif, which questions about one recording have in common."""
    run, known = traceql.Trace.run, dict[Any, traceql.Result]()

    def run_once(trace: traceql.Trace, name: str, /, **parameters: Any) -> traceql.Result:
        key = (trace.path, name, *sorted(parameters.items()))
        if key not in known:
            known[key] = run(trace, name, **parameters)
        return known[key]

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(traceql.Trace, "run", run_once)
        yield


def loaded(run: str) -> Path:
    return databases.trace(run).path


def rows(*arguments: str | Path) -> Any:
    return json.loads(output(*arguments, "--format", "json"))


def test_without_a_recording_it_says_floor_and_recommends_nothing_that_is_not_clear() -> None:
    lines = " ".join(output(*SHEET).split())
    assert lines.startswith("No layout is recommended: these are floors")
    assert "not predictions" in lines
    assert "Without a recording, times follow from the data sheet of NVIDIA H200" in lines
    assert not any(row["is_recommended"] for row in rows(*SHEET))


def test_recording_makes_a_recommendation_with_its_error_and_intervals() -> None:
    lines = " ".join(output("advise", "--run", loaded(TP2), "--gpus", "2").split())
    assert lines.startswith("Run DP 2: ")
    assert "Predictions of the recorded decode steps are off by" in lines
    found = rows("advise", "--run", loaded(TP2), "--gpus", "2")
    assert {row["layout"] for row in found} == {"TP 1", "TP 2", "PP 2", "DP 2"}
    for row in found:
        assert row["basis"] == "recording"
        assert row["tpot_low_ns"] < row["tpot_ns"] < row["tpot_high_ns"]
        assert row["tokens_per_s_low"] < row["tokens_per_s"] < row["tokens_per_s_high"]
    # Checked less, so less sure: stages.
    shares = {row["layout"]: row["tpot_high_ns"] / row["tpot_ns"] for row in found}
    assert shares["TP 2"] < shares["TP 1"] < shares["PP 2"]


def test_more_requests_are_taken_until_the_limit() -> None:
    limited = (*SHEET, "--goal", "tpot < 15ms, max throughput")
    for row in rows(*limited):
        assert row["tpot_ns"] < 15e6
        assert row["requests"] < row["most_requests"]


def test_fewest_gpus_are_those_that_keep_the_goal() -> None:
    found = rows(*SHEET, "--goal", "min gpus")
    assert found[0]["layout"] == "TP 1"
    tight = rows(*SHEET, "--goal", "tpot < 4ms, min gpus")
    assert tight[0]["layout"] == "TP 2"
    assert "tpot" in next(row["why_not"] for row in tight if row["layout"] == "TP 1")


def test_model_that_is_too_large_says_by_how_much() -> None:
    lines = output("advise", "--model", "qwen3-32b", "--gpu", "l4", "--gpus", "2")
    assert lines.startswith("No layout can be recommended; ")
    found = rows("advise", "--model", "qwen3-32b", "--gpu", "l4", "--gpus", "2")
    assert all(row["fits"] is False and "does not fit" in row["why_not"] for row in found)
    assert all(row["step_ns"] is None for row in found)


def test_wrong_question_is_one_line() -> None:
    h200, other = ("--gpu", "h200"), ("--run", loaded(TP2), "--model", "qwen3-32b")
    for arguments, told in (
        (("--model", "qwen3-9b", *h200), "did you mean 'qwen3-8b'"),
        (("--model", "qwen3-8b", "--gpu", "h300"), "no peaks of a GPU 'h300'; did you mean"),
        (("--run", "missing.duckdb"), "missing.duckdb does not exist"),
        (other, "is a recording of another model than qwen3-32b"),
    ):
        assert told in refusal("advise", *arguments)


def test_step_of_two_ranks_is_predicted_from_one_rank_within_15_percent() -> None:
    """Computing and communication of the decode step with 16 requests, without looking at it."""
    with traceql.open(loaded(TP2)) as trace:
        (measured,) = trace.select("""
            SELECT
                class.batch, CAST(round(class.kv_tokens / class.batch) AS BIGINT) AS length,
                SUM(spent.ns) FILTER (spent.part IN ('computing', 'exposed_transfer')) AS busy,
                SUM(spent.ns) FILTER (spent.part <> 'exposed_wait') AS step
            FROM step_class AS class
            INNER JOIN step_class_time AS spent USING (class_id)
            WHERE class.rank = 0 AND class.phase = 'decode' AND class.batch = 16
            GROUP BY ALL
        """).rows()
    with traceql.open(loaded(TP1)) as trace:
        base = recording(trace)
        assert base.tp == 1
        machine = with_points(machine_named("h200", [PEAKS]), base.points)
        evidence = RecordedTimes(base, model_named("qwen3-8b"), machine)
        load = decode(measured["batch"], measured["length"])
        found = step_time(base.model, Layout(2), load, evidence, machine.collectives)
    assert found is not None
    assert found.computing_ns + found.communication_ns == pytest.approx(measured["busy"], rel=0.15)
    assert found.ns == pytest.approx(measured["step"], rel=0.15)
