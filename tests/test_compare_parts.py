"""The parts of a comparison: names, alignment, layers and differences of set-up."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, exp, log
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceql.runs.compare.layers_and_kernels import Aligned, aligned, layer_changes, stem
from traceql.runs.compare.setup import Effect, differences
from traceql.runs.compare.verdict import Verdict, holm, interval_place, judged, p_value, shift

_NAMES = st.sampled_from(["alpha_kernel", "beta_kernel", "gamma<int>", "void delta(int)"])
_KERNELS = st.lists(st.tuples(_NAMES, st.integers(0, 1_000)), max_size=40)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void flash_fwd_kernel<128, true>(Params)", "void flash_fwd_kernel<64, false>(Params)"),
        ("nvjet_sm90_tst_128x8_64x12_4x1_v_bz_TNT", "nvjet_sm90_tst_128x16_64x11_4x1_v_bz_TNT"),
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
@pytest.mark.parametrize("parts", [(), ("other",), ("first", "second")])
def test_a_kernel_that_is_removed_renamed_or_split_is_one_change(
    parts: tuple[str, ...], placed: tuple[list[int], int]
) -> None:
    times, place = placed
    kernels = [(f"k{chr(97 + number)}", ns) for number, ns in enumerate(times)]
    name, ns = kernels[place]
    new = [*kernels[:place], *((part, 3) for part in parts), *kernels[place + 1 :]]
    changed = [row for row in aligned(kernels, new) if row.base != row.new]
    assert changed == [Aligned((name,), parts, 1, len(parts), ns, 3 * len(parts))]


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
    # Two layers are too few to say what is usual.
    assert layer_changes([("act", 0, 1.0, 2.0), ("act", 1, 1.0, 1.0)], 10) == []


def _effects(base: dict[str, str], new: dict[str, str], *accepted: str) -> dict[str, Effect]:
    facts = [
        (side, 0, name, value)
        for side, known in (("base", base), ("new", new))
        for name, value in known.items()
    ]
    return {one.name: one.effect for one in differences(facts, accepted=accepted)}


def test_another_gpu_forbids_unless_accepted_and_another_driver_is_noted() -> None:
    base = {"gpu.name": "H100", "gpu.driver": "1", "engine.max_num_seqs": "8"}
    new = {"gpu.name": "H200", "gpu.driver": "2"}
    assert _effects(base, new) == {"gpu.name": Effect.FORBIDS, "gpu.driver": Effect.NOTES}
    assert _effects(base, new, "gpu") == {"gpu.name": Effect.NOTES, "gpu.driver": Effect.NOTES}
    base = {"parallel.tp": "1", "ranks.world_size": "1", "ranks.loaded": "0"}
    new = {"parallel.tp": "2", "ranks.world_size": "2", "ranks.loaded": "0,1"}
    assert set(_effects(base, new, "parallel").values()) == {Effect.NOTES}
    assert _effects(base, new, "para")["parallel.tp"] is Effect.FORBIDS
    # Clocks within one percent are alike.
    assert _effects({"clock.sm_mhz": "1980"}, {"clock.sm_mhz": "1965"}) == {}
    found = _effects({"clock.sm_mhz": "1980"}, {"clock.sm_mhz": "1755"})
    assert found == {"clock.sm_mhz": Effect.WARNS}


def pairs_above(base: tuple[float, ...], new: tuple[float, ...]) -> Fraction:
    """Pairs in which the new value is greater; ties count one half."""
    signs = [(after > before) - (after < before) for before in base for after in new]
    return Fraction(sum(signs) + len(signs), 2)


def enumerated(base: int, new: int) -> list[int]:
    """Pairs with the new value above, in each order of base + new different values."""
    places = range(base + new)
    return [
        sum(after > before for after in chosen for before in places if before not in chosen)
        for chosen in combinations(places, new)
    ]


@pytest.mark.parametrize(("base", "new"), [(1, 1), (2, 3), (4, 4), (4, 6), (5, 5), (7, 4), (6, 6)])
def test_p_is_the_share_of_orders_that_are_as_extreme(base: int, new: int) -> None:
    orders = enumerated(base, new)
    assert len(orders) == comb(base + new, new)
    for chosen in list(combinations(range(base + new), new))[:: max(1, len(orders) // 40)]:
        values = [float(place) for place in range(base + new) if place not in chosen]
        above = pairs_above(tuple(values), tuple(map(float, chosen)))
        extreme = min(above, base * new - above)
        share = 2 * sum(one <= extreme for one in orders) / len(orders)
        assert p_value(values, list(map(float, chosen))) == pytest.approx(min(1, share))


@pytest.mark.parametrize(("base", "new"), [(4, 4), (4, 5), (5, 5), (6, 5), (4, 8), (7, 6)])
def test_the_interval_is_the_shortest_that_reaches_95_percent(base: int, new: int) -> None:
    orders = enumerated(base, new)
    place = interval_place(base, new)
    assert place is not None
    outside = [2 * sum(one < k for one in orders) / len(orders) for k in (place, place + 1)]
    assert outside[0] <= 0.05 < outside[1]


def test_places_of_intervals_are_those_of_the_tables() -> None:
    places = {runs: interval_place(runs, runs) for runs in (4, 5, 6, 7, 8, 10)}
    assert places == {4: 1, 5: 3, 6: 6, 7: 9, 8: 14, 10: 24}
    assert [interval_place(3, 3), interval_place(3, 20), interval_place(1, 1)] == [None, None, None]


def test_a_shift_is_the_median_of_all_ratios() -> None:
    base, new = [1.0, 2.0, 4.0, 5.0], [3.0, 6.0, 7.0, 8.0, 9.0]
    ratios = sorted(after / before for before, after in product(base, new))
    found = shift(base, new)
    assert found.is_ratio
    assert found.estimate == pytest.approx(exp(median(map(log, ratios))) - 1)
    place = interval_place(4, 5)
    assert place == 2
    assert found.low == pytest.approx(ratios[1] - 1)
    assert found.high == pytest.approx(ratios[-2] - 1)


def test_values_without_a_logarithm_are_subtracted() -> None:
    found = shift([0.0, 0.0, 1.0, 2.0], [5.0, 5.0, 6.0, 7.0])
    assert (found.is_ratio, found.estimate, found.low, found.high) == (False, 5.0, 3.0, 7.0)
    few = shift([2.0] * 9, [3.0] * 3)
    assert (few.low, few.high) == (None, None)
    assert few.estimate == pytest.approx(0.5)


def test_equal_runs_do_not_differ() -> None:
    found = shift([3.0] * 5, [3.0] * 5)
    assert (found.estimate, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert judged([3.0] * 5, [3.0] * 5, whole=3).verdict is Verdict.NO_CHANGE


def test_ties_make_p_greater_rather_than_less() -> None:
    # 24.5 of 25 pairs are above: it counts as 24, of which one order more is as extreme.
    base, new = [1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 6.0, 7.0, 8.0, 9.0]
    assert p_value(base, new) == pytest.approx(2 * 2 / comb(10, 5))
    assert p_value(base, [5.5, *new[1:]]) == pytest.approx(2 * 1 / comb(10, 5))


RUNS = st.lists(st.floats(0.5, 2, allow_nan=False), min_size=4, max_size=7)


@settings(max_examples=60, deadline=None)
@given(RUNS, RUNS)
def test_the_estimate_is_in_its_interval_which_leaves_out_0_only_where_p_is_small(
    base: list[float], new: list[float]
) -> None:
    found = shift(base, new)
    assert found.low is not None
    assert found.high is not None
    assert found.p is not None
    assert found.low <= found.estimate <= found.high
    if found.low > 0 or found.high < 0:
        assert found.p <= 0.05


def test_holm_by_hand() -> None:
    # Limits in the order of p: 0.05/4, 0.05/3, 0.05/2, 0.05/1.
    told = holm({"a": 0.03, "b": 0.001, "c": 0.0166, "d": 0.04, "unknown": None})
    assert told == {"a": False, "b": True, "c": True, "d": False, "unknown": False}
    # d alone would hold at 0.05, but after one that does not hold none does.
    assert not any(holm({"a": 0.013, "b": 0.02, "c": 0.02, "d": 0.02}).values())
    assert all(holm({"a": 0.0125, "b": 0.0166, "c": 0.025, "d": 0.05}).values())


@pytest.mark.parametrize(
    ("factor", "threshold", "expected"),
    [
        (1.05, 0.01, Verdict.SLOWER),
        (0.95, 0.01, Verdict.FASTER),
        (1.03, 0.02, Verdict.SLOWER),
        (1.0195, 0.02, Verdict.INCONCLUSIVE),  # real, but it may be above the threshold or below
    ],
)
def test_a_change_counts_if_it_is_sure_and_large(
    factor: float, threshold: float, expected: Verdict
) -> None:
    base = (1.000, 1.001, 1.002, 1.003, 1.004)
    found = judged(base, [factor * value for value in base], whole=1, threshold=threshold)
    assert found.verdict is expected


def test_simulated_repeats_are_seldom_called_slower_without_a_change_and_mostly_with_one() -> None:
    rng = np.random.default_rng(7)
    told: dict[float, list[Verdict]] = {0.0: [], 0.03: []}
    for change, verdicts in told.items():
        for _ in range(200):
            base = np.exp(rng.normal(0, 0.01, 5))
            new = (1 + change) * np.exp(rng.normal(0, 0.01, 5))
            verdicts.append(judged(list(base), list(new), whole=1.0).verdict)
    assert max(told[0.0].count(one) for one in (Verdict.SLOWER, Verdict.FASTER)) / 200 <= 0.05
    assert told[0.03].count(Verdict.SLOWER) / 200 >= 0.9
