"""How often a history marks a change that is none, and how soon one that is there.

    python benchmarks/history.py [--series 200]

Simulated series of run medians, with the same seeds each time.
"""

import argparse
import random
from collections.abc import Sequence

from traceql.runs.history.lookback import LEAST_BEFORE, Mark, score_points

_SPIKE, _SPIKE_SHARE = 0.2, 0.03  # of the runs that are off alone, as on a busy machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=200)
    count = parser.parse_args().series
    print("No change: share of the series with a mark")
    print(f"{'points':>7} {'noise':>6} {'noise is':>9} {'change':>7} {'outlier':>8}")
    for points in (12, 20, 40, 100):
        for noise in (0.002, 0.01, 0.03):
            for kind in ("normal", "t4"):
                found = [_marks(_series(seed, points, noise, kind)) for seed in range(count)]
                shares = [sum(mark in one for one in found) / count for mark in _OFF]
                print(f"{points:7} {noise:6.1%} {kind:>9} {shares[0]:7.1%} {shares[1]:8.1%}")
    print("\nA step, noise 1%: share of the series in which it is marked after N points")
    print(f"{'step':>6} {'before':>7} {'spikes':>7}" + "".join(f" {n:>6}" for n in _AFTER))
    for step in (0.02, 0.03, 0.05, -0.05, 0.1):
        for before in (LEAST_BEFORE, 12, 30):
            for spikes in (False, True):
                delays = [_delay(seed, step, before, spikes) for seed in range(count)]
                shares = [sum(delay <= n for delay in delays) / count for n in _AFTER]
                told = "".join(f" {share:6.1%}" for share in shares)
                print(f"{step:6.0%} {before:7} {'yes' if spikes else 'no':>7}{told}")


_OFF = (Mark.CHANGE, Mark.OUTLIER)
_AFTER = (2, 3, 4, 6)


def _series(
    seed: int,
    points: int,
    noise: float,
    kind: str = "normal",
    *,
    step: float = 0,
    before: int = 0,
    spikes: bool = False,
) -> list[float]:
    draw = random.Random(seed)

    def one(place: int) -> float:
        deviation = draw.gauss(0, 1)
        if kind == "t4":
            deviation /= (sum(draw.gauss(0, 1) ** 2 for _ in range(4)) / 4) ** 0.5
        spike = _SPIKE if spikes and draw.random() < _SPIKE_SHARE and place != before else 0
        return 100 * (1 + step * (place >= before)) * (1 + noise * deviation + spike)

    return [one(place) for place in range(points)]


def _marks(values: Sequence[float]) -> set[Mark]:
    return {one.mark for one in score_points(values)}


def _delay(seed: int, step: float, before: int, spikes: bool) -> float:
    """How many points after a step it takes until it is marked, at most one place off."""
    values = _series(seed, before + max(_AFTER), 0.01, step=step, before=before, spikes=spikes)
    for after in range(1, max(_AFTER) + 1):
        found = score_points(values[: before + after])
        if any(one.mark is Mark.CHANGE for one in found[before - 1 :]):
            return after
    return float("inf")


if __name__ == "__main__":
    main()
