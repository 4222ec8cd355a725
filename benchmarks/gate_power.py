"""What a gate finds: simulated runs with a true change, decided as traceql gate decides.

python benchmarks/gate_power.py    # prints the tables of docs/gate.md
"""

from itertools import product

import numpy as np

from traceql.runs.compare.verdict import CONFIDENCE, interval_place
from traceql.runs.gate.decision import smallest_p

_TRIALS = 20_000
_LIMIT_PCT = 2.0
_SEED = 1
_NOISES_PCT = (0.5, 1.0, 2.0)
_CHANGES_PCT = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
_RUNS = (4, 5, 7, 10)


def decided(runs: int, change_pct: float, noise_pct: float) -> tuple[float, float]:
    """How often one criterion is a regression, and how often it is none, percent."""
    draw = np.random.default_rng(_SEED).normal
    base = draw(0, noise_pct / 100, (_TRIALS, runs))
    new = draw(np.log1p(change_pct / 100), noise_pct / 100, (_TRIALS, runs))
    differences = (new[:, :, None] - base[:, None, :]).reshape(_TRIALS, -1)
    differences.sort(axis=1)
    place = interval_place(runs, runs)
    assert place is not None
    low, high = differences[:, place - 1], differences[:, -place]
    limit = np.log1p(_LIMIT_PCT / 100)
    regression = (low > 0) & (np.median(differences, axis=1) > limit)
    return 100 * float(regression.mean()), 100 * float((high <= limit).mean())


def main() -> None:
    print(f"limit {_LIMIT_PCT:g}%: regression / no regression, by runs on each side")
    print(f"| noise | true change | {' | '.join(map(str, _RUNS))} |")
    print("|---|---|" + "---|" * len(_RUNS))
    for noise_pct, change_pct in product(_NOISES_PCT, _CHANGES_PCT):
        cells = [decided(runs, change_pct, noise_pct) for runs in _RUNS]
        shares = " | ".join(f"{failed:.0f}% / {passed:.0f}%" for failed, passed in cells)
        print(f"| {noise_pct:g}% | {change_pct:g}% | {shares} |")
    # How many criteria can be gated at once so that Holm's correction allows a regression.
    print({runs: int((1 - CONFIDENCE + 1e-12) / smallest_p(runs, runs)) for runs in _RUNS})


if __name__ == "__main__":
    main()
