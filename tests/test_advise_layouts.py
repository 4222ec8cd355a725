"""Which layouts vLLM can run, and what they keep in memory."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from traceql.errors import GoalInvalid, UnknownModel
from traceql.plan.advise.layouts import (
    Layout,
    Memory,
    Model,
    layouts,
    memory,
    model_named,
    obstacle,
    stage_sizes,
)
from traceql.plan.advise.prediction import Prediction, Spread, StepTime
from traceql.plan.advise.ranking import (
    Candidate,
    Goal,
    best,
    bisected_requests,
    parsed_goal,
    ranked,
    tied_layouts,
    uncertain_limits,
)

DENSE = model_named("qwen3-8b")
EXPERTS = model_named("qwen3-30b-a3b")
EIGHT_LAYERS = replace(DENSE, sizes=replace(DENSE.sizes, layers=DENSE.sizes.layers[:8]))
GIB = 2**30


def held(model: Model, layout: Layout, **options: Any) -> Memory:
    given = {"gpu_bytes": 141e9, "utilization": 0.9, "request_tokens": 1280}
    return memory(model, layout, **{**given, **options})


def test_layouts_use_at_most_the_gpus_and_divide_the_heads() -> None:
    found = layouts(DENSE.sizes, 4)
    # 32 heads: TP 1 with 8 pairs of stages and replicas, TP 2 with 3, TP 4 with 1, but not TP 3.
    assert len(found) == 12
    assert {one.tp for one in found} == {1, 2, 4}
    assert max(one.gpus for one in found) == 4


def test_impossible_layout_says_why() -> None:
    assert obstacle(DENSE.sizes, Layout(3)) == "32 heads cannot be divided by 3"
    assert obstacle(DENSE.sizes, Layout(1, pp=37)) == "36 layers are fewer than 37 stages"


def test_kv_heads_are_repeated_on_more_ranks_but_not_split_unevenly() -> None:
    assert EXPERTS.sizes.kv_heads == 4
    assert obstacle(EXPERTS.sizes, Layout(8)) is None
    uneven = replace(DENSE.sizes, heads=48, ffn=48 * 64)  # 8 KV heads on 6 or on 12 ranks
    told = "8 KV heads can neither be divided by {0} nor repeated on {0} ranks"
    assert obstacle(uneven, Layout(6)) == told.format(6)
    assert obstacle(uneven, Layout(12)) == told.format(12)


def test_experts_are_spread_only_where_a_model_has_them() -> None:
    assert not any(one.ep for one in layouts(DENSE.sizes, 4))
    spread = {str(one) for one in layouts(EXPERTS.sizes, 2)}
    assert spread == {"TP 1", "TP 2", "TP 2 with EP", "PP 2", "DP 2", "DP 2 with EP"}
    narrow = replace(EXPERTS.sizes.experts, count=2)  # type: ignore[type-var]
    few = replace(EXPERTS.sizes, experts=narrow)
    assert obstacle(few, Layout(2, dp=2, ep=True)) == "2 experts are fewer than 4 ranks"


def test_weights_are_the_parameters_times_two_bytes() -> None:
    # Those of the model card without the norms, which no product reads.
    norms = 36 * (2 * 4096 + 2 * 128) + 4096
    whole = 2 * (8_190_735_360 - norms)
    assert held(DENSE, Layout()).weight_bytes == whole
    assert held(DENSE, Layout(2)).weight_bytes == whole / 2
    # vLLM 0.25 on H200s, Qwen3-8B with 8 layers: "Model loading took 5.21 GiB" and 2.61 GiB.
    for tp, gib in ((1, 5.21), (2, 2.61)):
        logged = held(EIGHT_LAYERS, Layout(tp)).weight_bytes / GIB
        assert logged == pytest.approx(gib, rel=0.006)


def test_kv_cache_holds_keys_and_values_of_each_layer() -> None:
    assert held(DENSE, Layout()).kv_bytes_per_token == 2 * 8 * 128 * 36 * 2 == 147_456
    assert held(DENSE, Layout(2)).kv_bytes_per_token == 147_456 / 2
    assert held(DENSE, Layout(pp=2)).kv_bytes_per_token == 147_456 / 2
    # 4 KV heads on 8 ranks: each has a whole one.
    assert held(EXPERTS, Layout(8)).kv_bytes_per_token == 2 * 1 * 128 * 48 * 2
    # vLLM made 131,072 tokens of 2 GiB for each of two ranks of eight layers.
    assert held(EIGHT_LAYERS, Layout(2)).kv_bytes_per_token == 2 * GIB / 131_072
    # The run in examples/qwen3-8b-tp2-batch16 had 1,601,248 tokens on GPUs of 150.75 GB.
    found = held(DENSE, Layout(2), gpu_bytes=150_754_820_096, utilization=0.85)
    assert found.kv_tokens == pytest.approx(1_601_248, rel=0.01)


def test_replicas_add_requests_and_stages_add_tokens() -> None:
    assert [stage_sizes(*n) for n in ((10, 4), (7, 3))] == [[2, 3, 3, 2], [2, 3, 2]]  # as in vLLM
    alone = held(DENSE, Layout())
    assert held(DENSE, Layout(dp=3)).requests == 3 * alone.requests
    assert held(DENSE, Layout(dp=3)).kv_tokens == alone.kv_tokens
    assert held(DENSE, Layout(pp=2)).kv_tokens > 2 * alone.kv_tokens


def test_spread_experts_are_kept_once_by_all_replicas() -> None:
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    rest = held(EXPERTS, Layout()).weight_bytes - experts
    assert held(EXPERTS, Layout(dp=4)).weight_bytes == rest + experts
    assert held(EXPERTS, Layout(dp=4, ep=True)).weight_bytes == rest + experts / 4
    # 128 experts on 3 ranks: one has 43 of them.
    uneven = held(EXPERTS, Layout(dp=3, ep=True)).weight_bytes
    assert uneven == pytest.approx(rest + experts * 43 / 128)


def test_what_does_not_fit_says_why() -> None:
    assert held(DENSE, Layout(), gpu_bytes=16e9).obstacle == (
        "weights of 16.4 GB per GPU, but 12.4 GB usable"
    )
    full = held(DENSE, Layout(), request_tokens=2_000_000).obstacle
    assert full is not None
    assert full.endswith("in the KV cache, but a request has 2,000,000")


def test_unknown_model_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="did you mean 'qwen3-8b'"):
        model_named("qwen3-9b")
    config: dict[str, Any] = {"model_type": "mamba", "num_hidden_layers": 4, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownModel, match="model type mamba are not known, so nothing can be"):
        model_named(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UnknownModel, match="cannot read the model configuration"):
        model_named(str(tmp_path))


STEP = StepTime(1e6, 1e6, 1e6, 0.0, 0.0, 1e6, ())
ROOM = Memory(1e9, 1.0, 10_000, 100, None)


def predicted(layout: Layout, *, tpot_ms: float, tokens_per_s: float = 1000) -> Prediction:
    tpot_ns, spread = tpot_ms * 1e6, Spread(0.9, 1.1)
    return Prediction(layout, 8, STEP, STEP, 1e6, 50e6, tpot_ns, tokens_per_s, spread, True)


def candidate(layout: Layout, *, tpot_ms: float = 10, tokens_per_s: float = 1000) -> Candidate:
    found = predicted(layout, tpot_ms=tpot_ms, tokens_per_s=tokens_per_s)
    return Candidate(layout, ROOM, found, None)


ONE, TWO, FOUR = Layout(), Layout(2), Layout(4)


def test_most_tokens_win_unless_a_limit_is_broken() -> None:
    slow = predicted(ONE, tpot_ms=30, tokens_per_s=5000)
    fast = predicted(ONE, tpot_ms=15, tokens_per_s=2000)
    assert best([slow, fast], parsed_goal("max throughput")) == (slow, None)
    assert best([slow, fast], parsed_goal("tpot < 20ms, max throughput")) == (fast, None)
    assert best([slow], parsed_goal("tpot < 20ms")) == (slow, "tpot 30.0 ms is above 20 ms")


def test_layouts_within_their_uncertainty_are_not_distinguished() -> None:
    first, near = candidate(ONE, tokens_per_s=1000), candidate(TWO, tokens_per_s=850)
    far = candidate(FOUR, tokens_per_s=800)
    # 850 / 0.9 is above 1000 / 1.1 = 909, 800 / 0.9 = 889 is not.
    goal = parsed_goal("max throughput")
    assert tied_layouts([first, near, far], goal) == [TWO]
    assert tied_layouts([candidate(ONE, tpot_ms=10), candidate(TWO, tpot_ms=13)], goal) == [TWO]
    latency = parsed_goal("min tpot")
    assert tied_layouts([candidate(ONE, tpot_ms=10), candidate(TWO, tpot_ms=13)], latency) == []


def test_what_cannot_be_chosen_comes_last_and_the_nearest_first() -> None:
    goal = parsed_goal("tpot < 20ms")
    far = replace(candidate(ONE, tpot_ms=90), why_not="tpot")
    near = replace(candidate(TWO, tpot_ms=25), why_not="tpot")
    unfit = Candidate(FOUR, ROOM, None, "does not fit")
    kept = candidate(Layout(dp=2), tpot_ms=19)
    found = ranked([unfit, far, near, kept], goal)
    assert [one.layout for one in found] == [Layout(dp=2), TWO, ONE, FOUR]


def test_limit_within_the_uncertainty_may_be_broken() -> None:
    goal = parsed_goal("tpot < 20ms")
    assert uncertain_limits(predicted(ONE, tpot_ms=19), goal) == ["tpot"]
    assert uncertain_limits(predicted(ONE, tpot_ms=18), goal) == []


@pytest.mark.parametrize(
    ("layout", "kept", "broken", "tried"),
    [
        (ONE, 32, 64, 48), (ONE, 60, 64, None),
        (Layout(pp=3, dp=2), 12, 24, 9),  # of each replica; 18 in all: stages get whole batches
    ],
)  # fmt: skip
def test_number_of_requests_is_narrowed_to_the_limit(
    layout: Layout, kept: int, broken: int, tried: int | None
) -> None:
    goal = parsed_goal("tpot < 20ms")
    found = [
        replace(predicted(layout, tpot_ms=10), requests=kept),
        replace(predicted(layout, tpot_ms=30), requests=broken),
    ]
    assert bisected_requests(found, goal) == tried
    assert bisected_requests(found[:1], goal) is None
    assert bisected_requests(found[1:], goal) is None


def test_limits_are_in_nanoseconds_whatever_their_unit() -> None:
    assert parsed_goal("tpot < 20ms, ttft < 0.5 s, min gpus") == Goal(
        "min gpus", {"tpot": 20e6, "ttft": 500e6}
    )
    assert parsed_goal("TPOT<900us") == Goal("max throughput", {"tpot": 900e3})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max thruput", "did you mean 'max throughput'"),
        ("tpot < 20", "no unit of time; use us, ms or s"),
        ("tpot 20ms", "cannot parse 'tpot 20ms'"),
        ("tpot < 20ms, tpot < 30ms", "limits tpot twice"),
        ("max throughput, min tpot", "two aims, max throughput and min tpot"),
    ],
)
def test_wrong_goal_is_one_line_that_says_what_to_write(text: str, told: str) -> None:
    with pytest.raises(GoalInvalid) as error:
        parsed_goal(text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
