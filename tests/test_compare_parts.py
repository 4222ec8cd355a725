"""The parts of a comparison: names, alignment, layers and differences of set-up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceql.runs.compare.kernel_matching import Aligned, aligned, stem
from traceql.runs.compare.layer_changes import layer_changes
from traceql.runs.compare.setup import Effect, differences
from traceql.runs.compare.verdict import Verdict, judged

_NAMES = st.sampled_from(["alpha_kernel", "beta_kernel", "gamma<int>", "void delta(int)"])
_KERNELS = st.lists(st.tuples(_NAMES, st.integers(0, 1_000)), max_size=40)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void flash_fwd_kernel<128, true>(Params)", "void flash_fwd_kernel<64, false>(Params)"),
        ("nvjet_sm90_tst_128x8_64x12_4x1_v_bz_TNT", "nvjet_sm90_tst_128x16_64x11_4x1_v_bz_TNT"),
        ("triton_red_fused_3", "triton_red_fused_17"),
        ("Cijk_Alik_Bljk_BBS_BH_MT64x16", "Cijk_Alik_Bljk_BBS_BH_MT256x128"),
        ("void gemm<at::BFloat16, tile<4, 2>>(int, f<int>)", "void gemm<float>(int)"),
    ],
)
def test_names_differ_in_more_than_templates_tiles_and_numbers(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nvjet_sm90_tst_128x8_v_bz_TNT", "nvjet_sm90_tst_128x8_v_bz_splitK_TNT"),
        ("act_and_mul_kernel", "act_and_mul_quant_kernel"),
        ("123", "456"),
    ],
)
def test_other_kernels_have_other_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@given(_KERNELS, _KERNELS)
def test_every_kernel_is_in_one_row(
    base: list[tuple[str, int]], new: list[tuple[str, int]]
) -> None:
    rows = aligned(base, new)
    assert sum(row.base_kernels for row in rows) == len(base)
    assert sum(row.new_kernels for row in rows) == len(new)
    assert sum(row.base_ns for row in rows) == sum(ns for _, ns in base)
    assert sum(row.new_ns for row in rows) == sum(ns for _, ns in new)


_PLACED = st.lists(st.integers(1, 1_000), min_size=3, max_size=20).flatmap(
    lambda times: st.tuples(st.just(times), st.integers(0, len(times) - 1))
)


@given(_PLACED)
def test_a_removed_kernel_is_gone_and_no_other(placed: tuple[list[int], int]) -> None:
    times, place = placed
    kernels = [(f"k{chr(97 + number)}", ns) for number, ns in enumerate(times)]
    rows = aligned(kernels, kernels[:place] + kernels[place + 1 :])
    changed = [row for row in rows if row.base != row.new]
    name, ns = kernels[place]
    assert changed == [Aligned((name,), (), 1, 0, ns, 0)]


@given(_PLACED)
def test_a_renamed_kernel_became_the_other_one(placed: tuple[list[int], int]) -> None:
    times, place = placed
    kernels = [(f"k{chr(97 + number)}", ns) for number, ns in enumerate(times)]
    renamed = [("other", ns) if n == place else (name, ns) for n, (name, ns) in enumerate(kernels)]
    changed = [row for row in aligned(kernels, renamed) if row.base != row.new]
    name, ns = kernels[place]
    assert changed == [Aligned((name,), ("other",), 1, 1, ns, ns)]


@given(_PLACED)
def test_a_split_kernel_became_its_parts(placed: tuple[list[int], int]) -> None:
    times, place = placed
    kernels = [(f"k{chr(97 + number)}", ns) for number, ns in enumerate(times)]
    name, ns = kernels[place]
    split = [*kernels[:place], ("first", ns), ("second", 3), *kernels[place + 1 :]]
    changed = [row for row in aligned(kernels, split) if row.base != row.new]
    assert changed == [Aligned((name,), ("first", "second"), 1, 2, ns, ns + 3)]


def test_repeated_changes_are_one_row() -> None:
    base = [("norm", 2), ("gemm", 10)] * 3
    new = [("norm", 2), ("splitk", 6), ("reduce", 1)] * 3
    rows = aligned(base, new)
    assert rows[0] == Aligned(("gemm",), ("splitk", "reduce"), 3, 6, 30, 21)
    assert rows[1] == Aligned(("norm",), ("norm",), 3, 3, 6, 6)


def test_layers_that_move_alike_are_one_answer() -> None:
    values = [("down_proj", layer, 100.0, 110.0 + layer % 2) for layer in range(8)]
    (found,) = layer_changes(values, 1_000)
    assert found.apart == ()
    assert found.layers == 8
    assert found.low == pytest.approx(0.10)
    assert found.high == pytest.approx(0.11)


def test_a_layer_that_moves_alone_is_named() -> None:
    values = [("down_proj", layer, 100.0, 200.0 if layer == 5 else 101.0) for layer in range(8)]
    (found,) = layer_changes(values, 1_000)
    ((layer, moved, base, new),) = found.apart
    assert (layer, base, new) == (5, 100, 200)
    assert moved == pytest.approx(1.0)
    assert found.usual == pytest.approx(0.01)


def test_two_layers_are_too_few_to_tell_what_is_usual() -> None:
    assert layer_changes([("act", 0, 1.0, 2.0), ("act", 1, 1.0, 1.0)], 10) == []


def _facts(base: dict[str, str], new: dict[str, str]) -> list[tuple[str, int, str, str]]:
    sides = (("base", base), ("new", new))
    return [(side, 0, name, value) for side, facts in sides for name, value in facts.items()]


def _effects(base: dict[str, str], new: dict[str, str], *accepted: str) -> dict[str, Effect]:
    found = differences(_facts(base, new), accepted=accepted)
    return {one.name: one.effect for one in found}


def test_another_gpu_forbids_and_another_driver_is_noted() -> None:
    base = {"gpu.name": "H100", "gpu.driver": "1", "version.vllm": "1"}
    new = {"gpu.name": "H200", "gpu.driver": "2", "version.vllm": "1"}
    assert _effects(base, new) == {"gpu.name": Effect.FORBIDS, "gpu.driver": Effect.NOTES}
    assert _effects(base, new, "gpu") == {"gpu.name": Effect.NOTES, "gpu.driver": Effect.NOTES}


def test_a_name_accepts_itself_and_what_is_below_it_only() -> None:
    base, new = {"parallel.tp": "1"}, {"parallel.tp": "2"}
    assert _effects(base, new, "parallel")["parallel.tp"] is Effect.NOTES
    assert _effects(base, new, "para")["parallel.tp"] is Effect.FORBIDS


def test_another_parallelism_is_accepted_with_the_ranks_that_it_has() -> None:
    base = {"parallel.tp": "1", "ranks.world_size": "1", "ranks.loaded": "0"}
    new = {"parallel.tp": "2", "ranks.world_size": "2", "ranks.loaded": "0,1"}
    assert set(_effects(base, new, "parallel").values()) == {Effect.NOTES}


def test_clocks_within_one_percent_are_alike() -> None:
    assert _effects({"clock.sm_mhz": "1980"}, {"clock.sm_mhz": "1965"}) == {}
    found = _effects({"clock.sm_mhz": "1980"}, {"clock.sm_mhz": "1755"})
    assert found == {"clock.sm_mhz": Effect.WARNS}


def test_what_a_plain_trace_does_not_tell_is_no_difference() -> None:
    assert _effects({"engine.max_num_seqs": "8", "gpu.name": "H200"}, {"gpu.name": "H200"}) == {}


_FIVE = (100.0, 101.0, 99.0, 100.5, 99.5)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, Verdict.NO_CHANGE), (1.05, Verdict.SLOWER), (1 / 1.05, Verdict.FASTER)],
)
def test_verdicts_of_five_steady_runs(factor: float, verdict: Verdict) -> None:
    threshold = 0.02
    told = judged(_FIVE, [factor * ns for ns in _FIVE], whole=100, threshold=threshold)
    assert told.verdict is verdict
