"""traceql advise --results: predictions beside what an experiment has measured."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import output, refusal
from test_advise_times import Stated
from written_results import WrittenPoint, latencies, write_results

from traceql.plan.advise.check import MeasuredPoint, incomparability
from traceql.plan.advise.layouts import Layout, model_named
from traceql.plan.advise.machine import machine_named
from traceql.plan.advise.prediction import (
    MeasuredErrors,
    Predictor,
    Requests,
    StepTime,
    batch_times,
    spread_of,
)
from traceql.plan.advise.role_times import DefaultTimes

MODEL, H200 = model_named("qwen3-8b"), machine_named("h200")
ONE = Layout()
USUAL = DefaultTimes(MODEL, H200)
REQUESTS = Requests(1024, 256)
PREDICTOR = Predictor(MODEL, USUAL, USUAL, H200.collectives, REQUESTS)
SHORT = {"prompt_tokens": REQUESTS.prompt_tokens, "output_tokens": REQUESTS.output_tokens}
HALF = StepTime(2e6, 2e6, 2e6, 0.0, 0.0, 1e6, ())  # the floor is half of it
POINT = MeasuredPoint(
    *("qwen3-8b", "NVIDIA H200", Layout(), 16, False, REQUESTS),
    arguments={}, environment={}, repeats=3, tpot_ns=8e6, ttft_ns=60e6, tokens_per_s=1800.0,
)  # fmt: skip


def predicted_ms(layout: Layout, requests: int) -> float:
    found = PREDICTOR.predicted(layout, requests)
    assert found
    return found.tpot_ns / 1e6


def at_a_time(tp: int, requests: int, tpot_ms: float, **more: Any) -> WrittenPoint:
    """A point with three repeats, whose median is the given TPOT."""
    said = [
        latencies(tpot=tpot_ms * factor, ttft=50.0) | {"output_throughput": 1000.0 * tp}
        for factor in (0.9, 1.0, 1.2)
    ]
    return WrittenPoint(said, tp=tp, concurrency=requests, **{**SHORT, **more})


def results(folder: Path, *points: WrittenPoint, **plan: Any) -> Path:
    return write_results(folder / "results", points, **plan)


def rows(*arguments: str | Path) -> Any:
    return json.loads(output("advise", *arguments, "--format", "json"))


def said(*arguments: str | Path) -> str:
    return " ".join(output("advise", *arguments).split())


@pytest.mark.slow
def test_error_is_predicted_over_measured_less_one(tmp_path: Path) -> None:
    first, second = predicted_ms(Layout(), 16), predicted_ms(Layout(2), 16)
    found = results(tmp_path, at_a_time(1, 16, first / 1.25), at_a_time(2, 16, second / 0.9))
    one, two = rows("--results", found, "--check")
    assert (one["layout"], one["load"], one["repeats"]) == ("TP 1", "16 at a time", 3)
    assert one["measured_tpot_ns"] == pytest.approx(first * 1e6 / 1.25)
    assert one["predicted_tpot_ns"] == pytest.approx(first * 1e6)
    assert one["tpot_error_pct"] == pytest.approx(25)
    assert two["tpot_error_pct"] == pytest.approx(-10)
    # Of requests that meet the prompts of others, TTFT depends on when they come.
    assert one["predicted_ttft_ns"] is one["ttft_error_pct"] is None
    lines = said("--results", found)
    assert (
        f"On 2 points of {found}, predicted TPOT is off by 17.5% in the median, at worst 25% too "
        "high (TP 1, 16 at a time, 1,024 prompt tokens)." in lines
    )
    assert "TP 1 by 25% in the median, at worst 25% too high (1 point); TP 2 by 10.0%" in lines


def batch(requests: int, step_tokens: int, ns: Mapping[str, float]) -> tuple[float, float]:
    evidence = Stated(ns)
    asked = Predictor(MODEL, evidence, evidence, lambda op, ranks, size: 0.0, Requests(100, 11))
    found = batch_times(asked, ONE, requests, step_tokens=step_tokens)
    assert found
    return found.ttft_ns, found.tpot_ns


def test_median_request_of_a_batch_waits_for_prompts_that_do_not_fit_a_step() -> None:
    assert batch(4, 8192, {"qkv_proj": 1000.0}) == (1000, 1000)
    # Two prompts a step: two requests have their first token after one step, two after two. The
    # first ones meet one more step of prompts in their ten further tokens.
    assert batch(4, 200, {"qkv_proj": 1000.0}) == pytest.approx((1500, 1000 + 0.5 * 1000 / 10))
    # A prompt longer than a step is processed alone.
    assert batch(3, 50, {"qkv_proj": 1000.0}) == pytest.approx((2000, 1000 + 1000 / 10))


def test_spread_contains_what_was_measured_of_the_layout() -> None:
    errors = MeasuredErrors({Layout(): [-0.2, 0.1], Layout(2): [0.02]})
    own = spread_of(USUAL, Layout(), HALF, errors)
    assert (own.low, own.high) == pytest.approx((1 / 1.2, 1 / 0.8))
    # No less than what the method errs by for another number of requests.
    near = spread_of(USUAL, Layout(2), HALF, errors)
    assert (near.low, near.high) == pytest.approx((1 / 1.11, 1.11))
    # A layout that was not measured has the worst error of all.
    errors = MeasuredErrors({Layout(): [-0.5], Layout(2): [0.02]})
    other = spread_of(USUAL, Layout(dp=2), HALF, errors)
    assert (other.low, other.high) == pytest.approx((0.5, 2))
    small = spread_of(USUAL, Layout(dp=2), HALF, MeasuredErrors({Layout(): [0.02]}))
    assert (small.low, small.high) == (0.5, 1.5)  # as without results


def test_a_layout_that_was_measured_itself_is_recommended(tmp_path: Path) -> None:
    points = [
        at_a_time(layout.tp, 16, 1.1 * predicted_ms(layout, 8), dp=layout.dp)
        for layout in (Layout(2), Layout(dp=2))
    ]
    given = ("--results", results(tmp_path, *points), "--gpus", "2")
    lines = said(*given)
    assert lines.startswith("Run DP 2, measured at 1 point with at most 16 requests at a time: ")
    assert "Statistically tied with it: PP 2" in lines
    assert next(row for row in rows(*given) if row["layout"] == "DP 2")["is_recommended"]


@pytest.mark.slow
def test_a_layout_that_was_not_measured_is_recommended_only_if_nothing_else_overlaps(
    tmp_path: Path,
) -> None:
    points = [at_a_time(tp, 16, 1.1 * predicted_ms(Layout(tp), 16)) for tp in (1, 2)]
    found = results(tmp_path, *points)
    lines = said("--results", found, "--gpus", "2")
    assert lines.startswith(
        "No layout is recommended: DP 2 was not measured, and DP 2, PP 2, TP 2 are statistically "
        "tied; the best measured one is TP 2: 2,000 tokens/s, TPOT 5.6 ms at 16 "
        "requests of 1,024 prompt and 256 output tokens. "
    )
    assert not any(row["is_recommended"] for row in rows("--results", found, "--gpus", "2"))
    by_name = {row["layout"]: row for row in rows("--results", found, "--gpus", "2")}
    assert by_name["TP 1"]["uncertainty"] == "-10% to +11%"
    assert said("--results", found, "--gpus", "1").startswith("Run TP 1, measured at 1 point with")


def test_the_best_that_was_measured_is_that_of_the_goal(tmp_path: Path) -> None:
    found = results(tmp_path, at_a_time(1, 8, 3.0), at_a_time(2, 16, 9.0))
    for goal, best in (("max throughput", "TP 2"), ("tpot < 7ms, max throughput", "TP 1")):
        lines = said("--results", found, "--gpus", "2", "--goal", goal)
        assert f"the best measured one is {best}:" in lines


def test_results_that_disagree_forbid_it(tmp_path: Path) -> None:
    found = results(tmp_path, at_a_time(1, 16, 2 * predicted_ms(Layout(), 16)))
    for gpus in ("1", "2"):
        told = said("--results", found, "--gpus", gpus)
        assert told.startswith(
            "No layout is recommended: predictions are off by up to 50% at measured points"
        )


def test_measured_numbers_stand_beside_the_predicted_ones(tmp_path: Path) -> None:
    loads = (1, 8, 7.0), (1, 64, 14.0)
    points = (*(at_a_time(*one) for one in loads), at_a_time(1, 256, 9.0, output_tokens=16))
    row, *_ = rows("--results", results(tmp_path, *points), "--gpus", "1")
    # 256 requests are predicted; of those with as many tokens, 64 is the nearest.
    assert (row["measured_load"], row["measured_tpot_ns"]) == ("64 at a time", 14e6)
    assert row["measured_tokens_per_s"] == 1000.0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"arguments": {"enforce_eager": False, "max_model_len": 4096, "seed": 1}}, None),
        ({"arguments": {"quantization": "fp8"}}, "engine argument quantization"),
        ({"environment": {"NCCL_ALGO": "Ring"}}, "environment variable NCCL_ALGO"),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, None),
        ({"gpu": "NVIDIA H100 80GB HBM3"}, "GPU NVIDIA H100 80GB HBM3"),
        ({"model": "Qwen3-8B"}, None),
        ({"in_flight": None}, "requests that arrive at a rate"),
        ({"tpot_ns": None}, "no TPOT"),
        ({"arguments": {"max_num_seqs": 8}}, "more requests than fit at once"),
    ],
)
def test_only_the_same_set_up_can_be_compared(changed: dict[str, Any], reason: str | None) -> None:
    found = incomparability(replace(POINT, **changed), MODEL, H200)
    assert (found or "").startswith(reason or "")
    assert (found is None) == (reason is None)


def test_results_without_a_comparable_point_are_no_evidence(tmp_path: Path) -> None:
    found = results(tmp_path, at_a_time(1, 16, 8.0, arguments={"enforce_eager": True}))
    lines = said("--results", found, "--gpus", "2")
    assert lines.startswith("No layout is recommended: these are floors")
    assert f"{found} has no point that can be compared with a prediction" in lines
    assert "1 point with engine argument enforce_eager" in lines
    assert all(row["measured_load"] is None for row in rows("--results", found, "--gpus", "2"))


def test_results_of_something_else_are_one_line(tmp_path: Path) -> None:
    found = results(tmp_path, at_a_time(1, 16, 8.0))
    for option, value, told in (
        ("--model", "qwen3-32b", "has results of qwen3-8b, not of qwen3-32b; omit --results"),
        ("--gpu", "b200", "has results of NVIDIA H200, not of NVIDIA B200; omit --results"),
    ):
        assert told in refusal("advise", "--results", found, option, value)
