"""How long a collective takes by peaks.json: measured, interpolated and extrapolated sizes."""

import json
from itertools import combinations
from statistics import median
from typing import Any

import databases
import numpy as np
import pytest

from traceql.database.loading.inputs import peaks_document
from traceql.errors import NotMeasured
from traceql.plan.limits.collective_time import CollectiveTime, alpha_beta, bus_factor

TWO_H200 = databases.EXAMPLES / "qwen3-8b-tp2-batch16" / "peaks.json"
KIB, MIB = 2**10, 2**20


def collective(size: int, ns: float, **more: Any) -> dict[str, Any]:
    given = {"op": "all_reduce", "ranks": 4, "algorithm": "nccl"}
    return {**given, "bytes": size, "ns": ns, **more}


def times(*collectives: dict[str, Any]) -> CollectiveTime:
    document = {
        "schema_version": 2, "measured": "", "device_name": "a GPU",
        "memory": [], "products": [], "collectives": collectives,
    }  # fmt: skip
    return CollectiveTime.of(peaks_document(json.dumps(document))[1])


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 2, 1), ("all_reduce", 8, 1.75), ("all_gather", 4, 0.75),
        ("reduce_scatter", 2, 0.5), ("all_to_all", 8, 0.875), ("send_recv", 8, 1),
    ],
)  # fmt: skip
def test_bus_factors_are_those_of_nccl_tests(op: str, ranks: int, factor: float) -> None:
    assert bus_factor(op, ranks) == factor


def test_a_measured_size_is_as_measured_and_between_two_it_is_on_the_fit() -> None:
    found = times(collective(KIB, 8000), collective(4 * KIB, 18_000))
    at = found.expected("all_reduce", 4, 4 * KIB)
    assert (at.ns, at.basis, at.algorithm, at.error) == (18_000, "measured", "nccl", None)
    middle = found.expected("all_reduce", 4, 2 * KIB)
    assert middle.ns == pytest.approx(8000 + 10_000 / 3)  # which two sizes fix
    assert middle.basis == "interpolated"


def test_beyond_the_measured_sizes_time_follows_latency_and_bandwidth() -> None:
    # 10 us, and 1.5 bytes over the links at 300 GB/s for each of the buffer.
    sizes = [2**power for power in range(10, 25)]
    found = times(*(collective(size, 10_000 + 1.5 * size / 300) for size in sizes))
    large = found.expected("all_reduce", 4, 10**9)
    assert large.ns == pytest.approx(10_000 + 1.5e9 / 300)
    assert large.basis == "extrapolated"
    assert found.expected("all_reduce", 4, 8).ns == pytest.approx(10_000, rel=1e-4)


def test_the_fastest_algorithm_counts_where_it_was_measured() -> None:
    custom = [collective(size * KIB, 4000, algorithm="custom") for size in (1, 64)]
    nccl = [collective(size * KIB, 12_000) for size in (1, 64, 1024)]
    found = times(*custom, *nccl)
    assert found.expected("all_reduce", 4, 16 * KIB).algorithm == "custom"
    assert found.expected("all_reduce", 4, 65 * KIB).algorithm == "nccl"
    assert found.expected("all_reduce", 4, 2 * MIB).algorithm == "nccl"
    chosen = found.expected("all_reduce", 4, 16 * KIB, algorithm="nccl")
    assert chosen.algorithm == "nccl"
    assert chosen.ns == pytest.approx(12_000)


def test_durations_are_of_kernels_where_each_size_has_one() -> None:
    whole = times(collective(KIB, 9000, kernel_ns=4000), collective(MIB, 19_000, kernel_ns=12_000))
    assert [one.timing for one in whole.series] == ["kernel"]
    assert whole.expected("all_reduce", 4, KIB).ns == 4000
    partly = times(collective(KIB, 9000, kernel_ns=4000), collective(MIB, 19_000))
    assert [one.timing for one in partly.series] == ["launch"]
    assert partly.expected("all_reduce", 4, KIB).ns == 9000


def test_what_was_not_measured_is_refused_with_what_was() -> None:
    found = times(collective(KIB, 8000), collective(MIB, 18_000), collective(KIB, 5000, ranks=2))
    with pytest.raises(NotMeasured, match="all_reduce among 8 GPUs was not measured at two sizes;"):
        found.expected("all_reduce", 8, KIB)
    with pytest.raises(
        NotMeasured, match="measured: all_reduce among 2 by nccl, all_reduce among 4"
    ):
        found.expected("all_to_all", 4, KIB)
    assert found.expected("all_reduce", 2, KIB).ns == 5000
    with pytest.raises(NotMeasured, match="measured: nothing; measure it with traceql experiment"):
        times().expected("all_reduce", 2, KIB)


def test_on_two_h200_small_all_reduces_are_those_of_vllm() -> None:
    """As measured: 40 KB in 3.4 to 4.2 us by vLLM's all-reduce, in about 6 us by NCCL."""
    found = CollectiveTime.from_file(TWO_H200)
    small = found.expected("all_reduce", 2, 40_960)
    assert (small.algorithm, small.basis) == ("custom", "interpolated")
    assert 3904 < small.ns < (3904 + 3968) / 2  # 32 and 64 KiB
    assert 3400 < small.ns < 4200
    assert 5697 < found.expected("all_reduce", 2, 40_960, algorithm="nccl").ns < 5824
    large = found.expected("all_reduce", 2, 4 * 2**30)
    assert large.ns == pytest.approx(4 * 3_228_409, rel=0.01)  # four times that of 1 GiB


SIZES = [2.0**power for power in range(10, 31)]


def test_outliers_do_not_move_the_fit_and_show_in_its_largest_error() -> None:
    durations = [5000 + size / 300 for size in SIZES]
    for number, factor in ((2, 3.0), (9, 2.0), (13, 4.0), (20, 1.25)):
        durations[number] *= factor
    fit = alpha_beta(SIZES, durations)
    assert fit is not None
    assert fit.alpha_ns == pytest.approx(5000)
    assert fit.bandwidth_gbps == pytest.approx(300)
    assert median(fit.errors) < 1e-6
    assert max(fit.errors) == pytest.approx(0.75)  # of the one that took four times as long
    assert [number for number, error in enumerate(fit.errors) if error > 0.01] == [2, 9, 13, 20]


@pytest.mark.parametrize("seed", range(8))
def test_no_line_through_two_points_has_less_error(seed: int) -> None:
    """A best line passes through two points, or through one and has no latency or slope."""
    random = np.random.default_rng(seed)
    durations = [(9000 + size / 200) * random.lognormal(sigma=0.4) for size in SIZES]
    points = list(zip(SIZES, durations, strict=True))
    lines = [(0.0, ns / size) for size, ns in points] + [(ns, 0.0) for _, ns in points]
    for (size, ns), (other, longer) in combinations(points, 2):
        slope = (longer - ns) / (other - size)
        lines.append((ns - slope * size, slope))
    least = min(
        sum(abs((alpha + slope * size) / ns - 1) for size, ns in points)
        for alpha, slope in lines
        if alpha >= 0 and slope >= 0
    )
    fit = alpha_beta(SIZES, durations)
    assert fit is not None
    assert sum(fit.errors) == pytest.approx(least, rel=1e-6)


def test_neither_latency_nor_time_of_a_byte_is_negative() -> None:
    falling = alpha_beta([1e3, 1e6, 1e9], [30.0, 20.0, 10.0])
    assert falling is not None
    assert (falling.ns_per_byte, falling.bandwidth_gbps) == (0, None)
    steep = alpha_beta([1.0, 2.0, 4.0], [1.0, 8.0, 64.0])
    assert steep is not None
    assert steep.alpha_ns >= 0
    assert alpha_beta([1024.0, 1024.0], [5000.0, 5000.0]) is None  # one size has no fit
