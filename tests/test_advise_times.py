"""Times that advice is made of: products, collectives, stages, experts, and what users see."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from traceql.errors import UnknownGpu
from traceql.plan.advise.layouts import (
    Layout,
    Load,
    Model,
    decode,
    fullest_rank,
    model_named,
    prefill,
)
from traceql.plan.advise.machine import (
    CollectiveTimes,
    Machine,
    machine_named,
    series_of,
    with_points,
)
from traceql.plan.advise.prediction import Predictor, Requests, StepTime, step_time
from traceql.plan.advise.role_times import DefaultTimes, Evidence, RoleTimes, floors

DENSE = model_named("qwen3-8b")
EXPERTS = model_named("qwen3-30b-a3b")
H200 = machine_named("h200")


@dataclass(frozen=True)
class Stated(Evidence):
    """Evidence that is the same for every load, or double for each doubling of the ranks."""

    ns: Mapping[str, float]
    asked: list[tuple[Load, int]] = field(default_factory=list)
    is_recorded: bool = True
    recorded_tp: int | None = 1
    is_other_gpu: bool = False
    error_pct: float = 0.0

    def times(self, load: Load, tp: int) -> RoleTimes:
        self.asked.append((load, tp))
        return RoleTimes(self.ns, {})


def floor(model: Model, machine: Machine, load: Load, tp: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in floors(model, machine, load, tp):
        found[one.part.role] = found.get(one.part.role, 0.0) + one.layers * one.ns
    return found


def test_product_of_a_decode_step_takes_as_long_as_its_weights_are_read() -> None:
    weights = 36 * 4096 * 2 * 12288 * 2
    assert floor(DENSE, H200, decode(4, 515), 1)["gate_up_proj"] == pytest.approx(weights / 4800)
    halved = floor(DENSE, H200, decode(4, 515), 2)["gate_up_proj"]
    assert halved == pytest.approx(weights / 2 / 4800)
    stated = DefaultTimes(DENSE, H200).times(decode(4, 515), 1)  # floors with efficiencies
    assert stated.ns["gate_up_proj"] == pytest.approx(weights / 4800 / 0.9 + 36 * 5500)
    assert stated.least_ns["gate_up_proj"] == pytest.approx(weights / 4800)


def test_product_of_a_prompt_takes_as_long_as_its_flops() -> None:
    flops = 36 * 2 * 1024 * 4096 * 2 * 12288
    found = floor(DENSE, H200, prefill(1024), 1)
    assert found["gate_up_proj"] == pytest.approx(flops / 989_400)
    # Each token sees those before it and itself; logits are wanted of the last one alone.
    pairs = 1024 * 1025 / 2
    assert found["attention"] == pytest.approx(36 * 4 * 4096 * pairs / 989_400)
    assert found["lm_head"] == pytest.approx(4096 * 151_936 * 2 / 4800)


def test_attention_of_a_decode_step_reads_the_kv_cache() -> None:
    found = floor(DENSE, H200, decode(64, 2000), 1)
    assert found["attention"] == pytest.approx(64 * 2000 * 147_456 / 4800)


def test_few_tokens_touch_few_experts() -> None:
    whole = 48 * 128 * 3 * 2048 * 768 * 2
    found = floor(EXPERTS, H200, decode(4, 515), 1)
    read = (found["experts_gate_up"] + found["experts_down"]) * 4800
    assert read / whole * 128 == pytest.approx(29.1, abs=0.05)  # 128 (1 - (1 - 8/128)^4)


def test_peak_that_the_model_needs_must_be_known() -> None:
    without = Machine("X", 1e9, 1.0, {}, 0, False, H200.collectives)
    with pytest.raises(UnknownGpu, match="the bf16 peak of X is not known"):
        list(floors(DENSE, without, decode(1, 1), 1))


def test_collective_is_its_startup_and_its_bytes_at_the_link() -> None:
    assert H200.collectives("all_reduce", 1, 1e9) == 0
    assert H200.collectives("all_reduce", 2, 45_000) == pytest.approx(4000 + 45_000 / 450)
    # Of 8 ranks, no start-up is known: that of 4; each byte moves 2 * 7/8 times.
    assert H200.collectives("all_reduce", 8, 45_000) == pytest.approx(4100 + 1.75 * 100)
    assert H200.collectives("reduce_scatter", 2, 9000) == H200.collectives("all_gather", 2, 9000)


def test_known_sizes_of_collectives_are_interpolated() -> None:
    points = [("all_reduce", 2, 1000, 4000.0), ("all_reduce", 2, 3000, 8000.0)]
    known = CollectiveTimes(series_of(points), {}, 450, None)
    assert known("all_reduce", 2, 2000) == pytest.approx(6000)
    assert known("all_reduce", 2, 500) == 4000
    assert known("all_reduce", 2, 3000 + 45_000) == pytest.approx(8000 + 100)
    # Beyond sizes that are far apart, latency and bandwidth go on: 3.9 us, and 10 GB/s.
    far = with_points(H200, [("all_reduce", 2, 1e3, 4000.0), ("all_reduce", 2, 1e5, 13_900.0)])
    assert far.collectives("all_reduce", 2, 1e6) == pytest.approx(3900 + 100_000)
    assert far.collectives("all_reduce", 2, 100) == pytest.approx(3910)


def of_stages(layout: Layout, load: Load, ns: Mapping[str, float]) -> StepTime:
    found = step_time(DENSE, layout, load, Stated(ns), lambda op, ranks, size: 0.0)
    assert found is not None
    return found


def test_stages_share_layers_but_not_what_is_outside_of_them() -> None:
    ns = {"embed": 10.0, "qkv_proj": 360.0, "lm_head": 50.0, "input_prep": 5.0}
    assert of_stages(Layout(), decode(1, 8), ns).ns == 425
    two = of_stages(Layout(pp=2), decode(1, 8), ns)
    assert two.ns == 10 + 360 + 50 + 2 * 5
    assert two.slowest_stage_ns == 180 + 50 + 5


def test_ranks_reduce_twice_a_layer_and_once_after_the_embedding() -> None:
    sent: list[tuple[str, int, float]] = []

    def collective_ns(op: str, ranks: int, size_bytes: float) -> float:
        sent.append((op, ranks, size_bytes))
        return {"all_reduce": 1.0, "all_gather": 1000.0, "send": 0.0}[op]

    found = step_time(DENSE, Layout(2), decode(4, 8), Stated({}), collective_ns)
    assert found is not None
    assert found.communication_ns == 2 * 36 + 1 + 1000
    assert ("all_reduce", 2, 4 * 4096 * 2) in sent
    assert ("all_gather", 2, 4 * 151_936 * 2) in sent


def test_stages_hand_over_two_tensors() -> None:
    def collective_ns(op: str, ranks: int, size_bytes: float) -> float:
        return size_bytes if op == "send" else 0.0

    found = step_time(DENSE, Layout(pp=3), decode(4, 8), Stated({}), collective_ns)
    assert found is not None
    assert found.communication_ns == 2 * (2 * 4 * 4096 * 2)


def test_spread_experts_have_the_tokens_of_all_replicas() -> None:
    evidence = Stated({"experts_down": 100.0, "qkv_proj": 10.0})
    ops: list[tuple[str, int, float]] = []

    def collective_ns(op: str, ranks: int, size_bytes: float) -> float:
        ops.append((op, ranks, size_bytes))
        return 0.0

    layout = Layout(2, dp=2, ep=True)
    found = step_time(EXPERTS, layout, decode(16, 8), evidence, collective_ns)
    assert evidence.asked == [(decode(16, 8), 2), (decode(32, 8), 4)]
    assert found is not None
    assert EXPERTS.sizes.experts is not None
    share = fullest_rank(EXPERTS.sizes.experts, 4, 32)
    assert found.computing_ns == pytest.approx(10 + 100 * share)
    tokens_of_all = 32 * 2048 * 2
    assert ("all_gather", 4, tokens_of_all) in ops
    assert ("reduce_scatter", 4, tokens_of_all) in ops


def predictor(ns: Mapping[str, float], requests: Requests) -> Predictor:
    evidence = Stated(ns)
    return Predictor(DENSE, evidence, evidence, lambda op, ranks, size: 0.0, requests)


def test_prompts_of_others_are_processed_between_tokens() -> None:
    found = predictor({"qkv_proj": 1000.0}, Requests(100, 11)).predicted(Layout(), 3)
    assert found is not None
    assert found.ttft_ns == 1000
    # Ten more tokens, in the life of which the prompts of two other requests are processed.
    assert found.tpot_ns == pytest.approx((10 * 1000 + 2 * 1000) / 10)
    assert found.tokens_per_s == pytest.approx(3 * 11 / (1000 + 10 * found.tpot_ns) * 1e9)


def test_replicas_serve_as_many_times_the_requests() -> None:
    asked = predictor({"qkv_proj": 1000.0}, Requests(100, 11))
    one, two = asked.predicted(Layout(), 4), asked.predicted(Layout(dp=2), 4)
    assert one is not None
    assert two is not None
    assert (two.requests, two.tpot_ns) == (8, one.tpot_ns)
    assert two.tokens_per_s == pytest.approx(2 * one.tokens_per_s)
    assert two.tokens_per_s_per_gpu == pytest.approx(one.tokens_per_s_per_gpu)


def test_stages_work_on_batches_at_the_same_time() -> None:
    asked = predictor({"qkv_proj": 1000.0, "lm_head": 300.0}, Requests(100, 11))
    alone, full = asked.predicted(Layout(pp=2), 1), asked.predicted(Layout(pp=2), 8)
    assert alone is not None
    assert full is not None
    assert alone.step_ns == 1300
    assert full.step_ns == 2 * (500 + 300)  # the last stage is the slowest
