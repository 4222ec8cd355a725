"""The fit of latency and bandwidth: known ones are found again, also among outliers."""

from itertools import combinations

import numpy as np
import pytest

from traceql.plan.limits.collective_time import alpha_beta

SIZES = [2.0**power for power in range(10, 31)]


def line(alpha_ns: float, gbps: float) -> list[float]:
    return [alpha_ns + size / gbps for size in SIZES]


@pytest.mark.parametrize(("alpha_ns", "gbps"), [(4000, 270), (12_800, 363), (0, 47.7), (25_000, 3)])
def test_latency_and_bandwidth_are_found_again(alpha_ns: float, gbps: float) -> None:
    fit = alpha_beta(SIZES, line(alpha_ns, gbps))
    assert fit is not None
    assert fit.alpha_ns == pytest.approx(alpha_ns, rel=1e-6, abs=1e-3)
    assert fit.bandwidth_gbps == pytest.approx(gbps, rel=1e-6)
    assert fit.largest_error < 1e-6
    assert fit.ns(1e12) == pytest.approx(alpha_ns + 1e12 / gbps)


def test_outliers_do_not_move_the_fit_and_show_in_its_largest_error() -> None:
    durations = line(5000, 300)
    for number, factor in ((2, 3.0), (9, 2.0), (13, 4.0), (20, 1.25)):
        durations[number] *= factor
    fit = alpha_beta(SIZES, durations)
    assert fit is not None
    assert fit.alpha_ns == pytest.approx(5000)
    assert fit.bandwidth_gbps == pytest.approx(300)
    assert fit.median_error < 1e-6
    assert fit.largest_error == pytest.approx(0.75)  # of the one that took four times as long
    assert [number for number, error in enumerate(fit.errors) if error > 0.01] == [2, 9, 13, 20]


@pytest.mark.parametrize("seed", range(8))
def test_no_line_through_two_points_has_less_error(seed: int) -> None:
    """A best line passes through two points, or through one and has no latency or slope."""
    random = np.random.default_rng(seed)
    durations = [one * random.lognormal(sigma=0.4) for one in line(9000, 200)]
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


@pytest.mark.parametrize("sizes", [[], [1024.0], [1024.0, 1024.0]])
def test_one_size_has_no_fit(sizes: list[float]) -> None:
    assert alpha_beta(sizes, [5000.0] * len(sizes)) is None
