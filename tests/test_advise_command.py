"""traceql advise: the answer, the table of layouts, and what it refuses."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import called, output, refusal

import traceql
from traceql.advise import Question, advise, parsed_goal
from traceql.advise.layouts import Layout
from traceql.advise.load import decode
from traceql.advise.machine import machine_named, with_points
from traceql.advise.models import model_named
from traceql.advise.prediction import Requests
from traceql.advise.recorded_times import RecordedTimes, recording
from traceql.advise.step_time import step_time

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


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output(*arguments, "--format", "json"))
    return found


def test_without_a_recording_it_says_floor_and_recommends_nothing_that_is_not_clear() -> None:
    lines = " ".join(output(*SHEET).split())
    assert lines.startswith("No layout is recommended: these are floors")
    assert "not predictions" in lines
    assert "Nothing was recorded: times follow from the data sheet of NVIDIA H200" in lines
    assert not any(row["is_recommended"] for row in rows(*SHEET))


def test_only_layout_is_recommended_even_from_data_sheets() -> None:
    lines = output("advise", "--model", "qwen3-8b", "--gpu", "h200", "--gpus", "1")
    assert lines.startswith("Run TP 1: ")


def test_recording_makes_a_recommendation_with_its_error() -> None:
    lines = " ".join(output("advise", "--run", loaded(TP2), "--gpus", "2").split())
    assert lines.startswith("Run DP 2: ")
    assert "the same method errs by" in lines
    assert "Nothing was recorded" not in lines


def test_rows_have_their_interval_and_basis() -> None:
    found = rows("advise", "--run", loaded(TP2), "--gpus", "2")
    assert {row["layout"] for row in found} == {"TP 1", "TP 2", "PP 2", "DP 2"}
    for row in found:
        assert row["basis"] == "recording"
        assert row["tpot_low_ns"] < row["tpot_ns"] < row["tpot_high_ns"]
        assert row["tokens_per_s_low"] < row["tokens_per_s"] < row["tokens_per_s_high"]
    # Checked less, so less sure: stages.
    shares = {row["layout"]: row["tpot_high_ns"] / row["tpot_ns"] for row in found}
    assert shares["TP 2"] < shares["TP 1"] < shares["PP 2"]


def test_csv_has_the_columns_of_json() -> None:
    lines = output(*SHEET, "--format", "csv").splitlines()
    assert next(iter(csv.DictReader(lines))).keys() == rows(*SHEET)[0].keys()


def test_more_requests_are_taken_until_the_limit() -> None:
    limited = (*SHEET, "--goal", "tpot < 15ms, max throughput")
    for row in rows(*limited):
        assert row["tpot_ns"] < 15e6
        assert row["requests"] < row["most_requests"]


def test_goal_that_nothing_keeps_names_the_nearest() -> None:
    lines = output(*SHEET, "--goal", "tpot < 1ms")
    assert lines.startswith("No layout keeps the goal; nearest is TP 2: tpot ")
    assert "above 1 ms" in lines


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


def test_longer_requests_leave_room_for_fewer() -> None:
    short, long = rows(*SHEET), rows(*SHEET, "--max-model-len", "32768")
    assert short[0]["most_requests"] > 20 * long[0]["most_requests"]


def test_tensor_parallel_sizes_that_cannot_be_are_named() -> None:
    lines = output("advise", "--model", "qwen3-8b", "--gpu", "h200", "--gpus", "4")
    assert "vLLM cannot run TP 3: 32 heads cannot be divided by 3." in lines


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "qwen3-9b", "--gpu", "h200"), "did you mean 'qwen3-8b'"),
        (("--model", "qwen3-8b", "--gpu", "h300"), "no peaks of a GPU 'h300'; did you mean"),
        (("--model", "qwen3-8b"), "no GPU is named; give --gpu"),
        (("--gpu", "h200"), "no model is named; give --model"),
        (("--model", "qwen3-8b", "--gpu", "h200", "--goal", "fast"), "cannot understand 'fast'"),
        (
            ("--model", "qwen3-8b", "--gpu", "h200", "--max-model-len", "100"),
            "requests of 1,280 tokens are longer than --max-model-len 100",
        ),
        (("--run", "missing.duckdb"), "missing.duckdb does not exist"),
    ],
)
def test_wrong_question_is_one_line(arguments: tuple[str, ...], told: str) -> None:
    assert told in refusal("advise", *arguments)


def test_recording_of_another_model_is_refused() -> None:
    told = refusal("advise", "--run", loaded(TP2), "--model", "qwen3-32b")
    assert "is a recording of another model than qwen3-32b" in told


def test_database_is_checked_or_predicted_from_but_not_both() -> None:
    told = refusal("advise", loaded(TP2), "--model", "qwen3-8b", status=2)
    assert "give it with --run" in told


def test_python_gives_the_same_answer_as_the_command() -> None:
    question = Question(
        parsed_goal("min tpot"), model="qwen3-8b", gpu="h200", gpus=2, requests=Requests(1024, 256)
    )
    first = advise(question).candidates[0]
    told = rows(*SHEET, "--goal", "min tpot")[0]
    assert first.prediction is not None
    assert (str(first.layout), first.prediction.tpot_ns) == (told["layout"], told["tpot_ns"])


def test_measured_peaks_are_named() -> None:
    lines = " ".join(output(*SHEET, "--peaks", PEAKS).split())
    assert "times follow from the measured peaks of NVIDIA H200" in lines


def test_table_leaves_out_columns_that_wide_shows() -> None:
    assert "is_recommended" not in output(*SHEET)
    assert "is_recommended" in called(*SHEET, "--wide").stdout.decode()


def test_step_of_two_ranks_is_predicted_from_one_rank_within_15_percent() -> None:
    """Computing and communication of the decode step with 16 requests, without looking at it."""
    with traceql.open(loaded(TP2)) as trace:
        (measured,) = trace.select("""
            SELECT
                class.batch, CAST(round(class.kv_tokens / class.batch) AS BIGINT) AS length,
                SUM(spent.ns) FILTER (spent.part IN ('computing', 'exposed_transfer')) AS busy,
                SUM(spent.ns) FILTER (spent.part <> 'exposed_wait') AS step
            FROM step_class AS class
            INNER JOIN class_time AS spent USING (class_id)
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


def test_mixture_of_experts_has_layouts_that_spread_the_experts() -> None:
    found = rows("advise", "--model", "qwen3-30b-a3b", "--gpu", "h100", "--gpus", "4")
    by_name = {row["layout"]: row for row in found}
    alone, spread = by_name["DP 4"], by_name["DP 4 with EP"]
    # 58.0 GB of experts: whole in each replica, or a quarter of them.
    assert alone["weight_bytes"] - spread["weight_bytes"] == pytest.approx(58.0e9 * 3 / 4, rel=0.01)
    assert spread["kv_tokens"] > 4 * alone["kv_tokens"]


def test_recording_tells_of_another_gpu_less_surely() -> None:
    there = rows("advise", "--run", loaded(TP2), "--gpus", "1")
    elsewhere = rows("advise", "--run", loaded(TP2), "--gpus", "1", "--gpu", "h100")
    # H100 has 70% of the bandwidth and the same peak of FLOPs.
    assert 1 < elsewhere[0]["step_ns"] / there[0]["step_ns"] < 4800 / 3350
    assert (there[0]["uncertainty"], elsewhere[0]["uncertainty"]) == (
        "-11% to +12%",
        "-13% to +15%",
    )


def test_room_for_tokens_is_that_of_the_recorded_gpu() -> None:
    """vLLM made room for 1,601,248 tokens in that run."""
    found = rows(
        *("advise", "--run", loaded(TP2), "--gpus", "2", "--gpu-memory-utilization", "0.85"),
        *("--max-model-len", "2048"),
    )
    room = next(row["kv_tokens"] for row in found if row["layout"] == "TP 2")
    assert room == pytest.approx(1_601_248, rel=0.01)


def test_recording_that_the_method_does_not_fit_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def erring(evidence: RecordedTimes, *given: Any) -> None:
        known(evidence, *given)
        evidence.error_pct = 60.0

    known = RecordedTimes.__init__
    monkeypatch.setattr(RecordedTimes, "__init__", erring)
    lines = output("advise", "--run", loaded(TP2), "--gpus", "2")
    assert lines.startswith("No layout is recommended: the method errs by 60% on the recorded")
