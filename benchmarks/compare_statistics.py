"""How often a comparison of runs is wrong: false alarms, power and coverage on simulated runs.

    python benchmarks/compare_statistics.py [--pairs 200] [--quick-pairs 1000]

A simulated run is one start of a server. Its clocks and its placement in memory move all its steps
by 1% (standard deviation); its steps have 2% noise, of which a step hands 50 to 80% on to the next
one, and 3% of them stall on the host. A change makes all kernels of a side slower.

The first table takes the way of real runs: steps become strata, medians and values by the SQL of
traceql.runs.compare, and a Comparison judges them. The others judge values that are computed
here, of more pairs. Exits with 1 if there are more than 5% false alarms or less than 90% of the
changes of 3% are found, with five runs on each side, or if the two ways disagree.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import erf, log, sqrt
from pathlib import Path
from statistics import median_low

import duckdb
import numpy as np
import pyarrow as pa

from traceql.runs import compare
from traceql.runs.compare.comparison import Comparison
from traceql.runs.compare.sides import RESULTS, RunProfile, columns_of
from traceql.runs.compare.verdict import NOISE, Verdict, judged
from traceql.util.text import source_text

_SEED = 20260101
_RUN_EFFECT = 0.01  # standard deviation from run to run, relative
_STEP_NOISE = 0.02  # standard deviation from step to step within a run, relative
_STALLS = 0.03  # share of the steps that wait for the host
_STALL = 0.3  # mean of such a wait, of the usual step
_LANES = 2
_MOST_FALSE_ALARMS = 0.05
_LEAST_POWER = 0.90
_CHANGE = 0.03  # that must be found
_RUNS = 5  # on each side, for the two limits
_GATE = 0.02  # threshold of the criterion decode.step > 2%
_PROFILE = Path(compare.__file__).parent / "profile"
_ROLES = {"attention": 0.3, "gate_up_proj": 0.35, "down_proj": 0.2, "input_norm": 0.15}
_SQL = ("member", "stratum", "metric", "typical_part")  # made by the SQL of the product
_TEXTS = pa.struct([("part", pa.string()), ("role", pa.string()), ("cause", pa.string())])
_TABLES = """
    CREATE TABLE unit (unit_id BIGINT);
    CREATE TABLE time_of_unit (unit_id BIGINT, part VARCHAR, role VARCHAR);
    CREATE TABLE lost_time (
        step_id BIGINT, rank BIGINT, part VARCHAR, root_rank BIGINT, cause VARCHAR, ns BIGINT
    );
    CREATE VIEW unit_step AS SELECT unit_id, unit_id AS step_id FROM unit;
    CREATE VIEW kernel AS
    SELECT unit_id AS step_id, role FROM time_of_unit WHERE part = 'computing';
"""
_FILLED = f"""
    CREATE OR REPLACE TABLE unit AS
    SELECT
        unit_id, phase, rows AS rows_to, kv_from, rows AS tokens, rows AS requests,
        rows * kv_from AS kv_tokens, 'full' AS graph_mode, CAST({_LANES} AS BIGINT) AS lanes,
        TRUE AS is_complete, gpu_ns, 0 AS before_ns
    FROM units;
    CREATE OR REPLACE TABLE time_of_unit AS
    SELECT unit_id, UNNEST(texts), CAST(NULL AS BIGINT) AS layer, ns FROM times WHERE ns > 0;
"""


@dataclass(frozen=True)
class Size:
    """Steps of one size, as a workload has them."""

    phase: str
    rows: int
    kv_from: int
    steps: int  # expected number in a run
    ns: float  # usual duration on one lane
    autocorrelation: float


_SIZES = (
    Size("decode", 4, 1024, 40, 3.9e6, 0.5),
    Size("decode", 16, 1024, 100, 4.7e6, 0.8),
    Size("decode", 16, 2048, 60, 5.0e6, 0.7),
    Size("mixed", 512, 1024, 15, 21e6, 0.5),
)


@dataclass(frozen=True)
class Steps:
    """Steps of one size in one run: computation and stall of each, summed over lanes, ns."""

    busy_ns: np.ndarray
    stall_ns: np.ndarray


SimulatedRun = tuple[Steps, ...]  # by size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200, help="pairs of groups, whole way")
    parser.add_argument("--quick-pairs", type=int, default=1000, help="pairs, values alone")
    options = parser.parse_args()
    started = time.process_time()
    agreed, false_alarms, power = _whole_way(options.pairs)
    print(f"CPU time: {time.process_time() - started:.0f} s\n")
    started = time.process_time()
    _values_alone(options.quick_pairs)
    _steps_as_samples(options.quick_pairs)
    print(f"CPU time: {time.process_time() - started:.0f} s")
    failed = [
        text
        for text, holds in (
            ("values of the tables are those computed here", agreed),
            (f"at most {_MOST_FALSE_ALARMS:.0%} false alarms", false_alarms <= _MOST_FALSE_ALARMS),
            (f"at least {_LEAST_POWER:.0%} of changes of 3% found", power >= _LEAST_POWER),
        )
        if not holds
    ]
    sys.exit(f"does not hold: {'; '.join(failed)}" if failed else 0)


# --- the whole way: steps, strata, medians, values, verdicts --------------------------------------


def _whole_way(pairs: int) -> tuple[bool, float, float]:
    """Whether values agree, the share of false alarms, and that of changes of 3% that are found."""
    rng = np.random.default_rng(_SEED)
    con = duckdb.connect(config={"threads": 1})
    con.execute(_TABLES)
    told: dict[float, Counter[str]] = {0.0: Counter(), _CHANGE: Counter()}
    any_role: Counter[float] = Counter()
    agreed = True
    for _ in range(pairs):
        base = [_simulated(rng, 0) for _ in range(_RUNS)]
        base_runs = [_profiled(con, run) for run in base]
        for change, counts in told.items():
            new = [_simulated(rng, change) for _ in range(_RUNS)]
            with Comparison(base_runs, [_profiled(con, run) for run in new]) as comparison:
                rows = comparison.sql(
                    "SELECT metric, kind, base, new, verdict FROM change WHERE scope = 'decode'"
                ).rows()
            by_metric = {row["metric"]: row for row in rows}
            step = by_metric["step"]
            counts[step["verdict"]] += 1
            roles = [row["verdict"] for row in rows if row["kind"] == "role"]
            any_role[change] += Verdict.SLOWER in roles
            expected = [np.median(side) for side in _values(base, new, "decode")]
            agreed &= bool(np.allclose([step["base"], step["new"]], expected, rtol=1e-9))
    print(
        f"{pairs} pairs of {_RUNS} and {_RUNS} runs, {_RUN_EFFECT:.0%} from run to run, from "
        f"strata to the verdict on the decode step (threshold {NOISE:.0%}):"
    )
    for change, counts in told.items():
        print(
            f"  change {change:4.0%}: {_shares(counts, pairs)}; "
            f"any of {len(_ROLES)} roles slower {any_role[change] / pairs:.1%}"
        )
    print(f"  values of the tables are those computed here: {'yes' if agreed else 'NO'}")
    return agreed, told[0.0][Verdict.SLOWER] / pairs, told[_CHANGE][Verdict.SLOWER] / pairs


def _profiled(con: duckdb.DuckDBPyConnection, run: SimulatedRun) -> RunProfile:
    """The run as the product would profile it, with its own SQL."""
    units, times, first = [], [], 0
    for size, steps in zip(_SIZES, run, strict=True):
        ids = np.arange(first, first + len(steps.busy_ns))
        first += len(ids)
        parts = _parts(steps)
        texts = {"phase": size.phase, "rows": size.rows, "kv_from": size.kv_from}
        columns = {name: [value] * len(ids) for name, value in texts.items()}
        gpu_ns = np.sum([ns for *_, ns in parts], axis=0)
        units.append(pa.table({"unit_id": ids, "gpu_ns": gpu_ns, **columns}))
        for part, role, cause, ns in parts:
            rows = pa.array([(part, role, cause)] * len(ids), _TEXTS)
            times.append(pa.table({"unit_id": ids, "texts": rows, "ns": ns}))
    con.register("units", pa.concat_tables(units))
    con.register("times", pa.concat_tables(times))
    con.execute(_FILLED)
    for name in _SQL:
        con.execute(f"CREATE OR REPLACE TABLE {name} AS {source_text(_PROFILE / f'{name}.sql')}")
    made = {name: con.sql(f"FROM {name}").to_arrow_table() for name in _SQL if name in RESULTS}
    facts = pa.table({"name": ["gpu.name"], "value": ["simulated"]})
    empty = {name: _empty(name) for name in RESULTS}
    return RunProfile("simulated", None, empty | made | {"fact": facts})


def _parts(steps: Steps) -> list[tuple[str, str | None, str | None, np.ndarray]]:
    """Part, role, cause and times of each step, ns; times are whole numbers."""
    until = np.cumsum([0.0, *_ROLES.values()])
    ends = [np.round(steps.busy_ns * share / until[-1]).astype(np.int64) for share in until]
    times = [after - before for before, after in pairwise(ends)]
    busy = [("computing", role, None, ns) for role, ns in zip(_ROLES, times, strict=True)]
    return [*busy, ("idle", None, "host", np.round(steps.stall_ns).astype(np.int64))]


@cache
def _empty(name: str) -> pa.Table:
    con = duckdb.connect()
    columns = ", ".join(f"NULL::{column.type} AS {column.name}" for column in columns_of(name))
    return con.sql(f"SELECT {columns} WHERE FALSE").to_arrow_table()


# --- values alone ---------------------------------------------------------------------------------


def _values_alone(pairs: int) -> None:
    """Verdicts on values that are computed here, for more numbers of runs and more changes."""
    rng = np.random.default_rng(_SEED + 1)
    most = 10
    for count in (4, _RUNS, most):
        print(f"{pairs} pairs of {count} and {count} runs, decode step:")
        for change in (0, 0.01, 0.02, _CHANGE, 0.05):
            counts: Counter[str] = Counter()
            gate: Counter[str] = Counter()
            covered, widths = 0, []
            for _ in range(pairs):
                base = [_simulated(rng, 0, "decode") for _ in range(count)]
                new = [_simulated(rng, change, "decode") for _ in range(count)]
                base_values, new_values = _values(base, new, "decode")
                whole = float(np.median(base_values))
                told, gated = (
                    judged(base_values, new_values, whole=whole, threshold=threshold)
                    for threshold in (NOISE, _GATE)
                )
                counts[told.verdict] += 1
                gate[gated.verdict] += 1
                low, high = told.shift.low, told.shift.high
                if low is not None and high is not None:
                    covered += low <= change <= high
                    widths.append((log(1 + high) - log(1 + low)) / 2)
            print(
                f"  change {change:3.0%}: {_shares(counts, pairs)}; interval holds it "
                f"{covered / pairs:.1%}, half of it {np.median(widths):.2%}; "
                f"decode.step > {_GATE:.0%} fails {gate[Verdict.SLOWER] / pairs:.1%}, "
                f"passes {(gate[Verdict.NO_CHANGE] + gate[Verdict.FASTER]) / pairs:.1%}"
            )


def _values(
    base: Sequence[SimulatedRun], new: Sequence[SimulatedRun], phase: str
) -> tuple[list[float], list[float]]:
    """The step of each run: medians of the sizes, weighted by the steps that both sides have."""
    places = [place for place, size in enumerate(_SIZES) if size.phase == phase]
    weights = [
        min(median_low(len(run[place].busy_ns) for run in side) for side in (base, new))
        for place in places
    ]

    def value(run: SimulatedRun) -> float:
        medians = [median_low(np.sum([ns for *_, ns in _parts(run[p])], axis=0)) for p in places]
        weighted = sum(w * ns for w, ns in zip(weights, medians, strict=True))
        return float(weighted / (_LANES * sum(weights)))

    return [value(run) for run in base], [value(run) for run in new]


def _steps_as_samples(pairs: int) -> None:
    """What a test would say that takes the steps of one run a side as independent samples."""
    rng = np.random.default_rng(_SEED + 2)
    alarms = 0
    for _ in range(pairs):
        base, new = (
            steps.busy_ns + steps.stall_ns
            for steps in (_simulated(rng, 0, "decode")[1] for _ in range(2))
        )
        above = np.searchsorted(np.sort(base), new).sum()
        deviation = sqrt(len(base) * len(new) * (len(base) + len(new) + 1) / 12)
        z = (above - len(base) * len(new) / 2) / deviation
        alarms += 1 - erf(abs(z) / sqrt(2)) < 0.05
    print(
        f"for comparison: Mann-Whitney over the steps of one run a side finds a difference in "
        f"{alarms / pairs:.0%} of pairs without one"
    )


# --- runs -----------------------------------------------------------------------------------------


def _simulated(rng: np.random.Generator, change: float, phase: str | None = None) -> SimulatedRun:
    """A run; with `phase` the other sizes have no steps."""
    effect = np.exp(rng.normal(0, _RUN_EFFECT)) * (1 + change)
    return tuple(
        _steps(rng, size, effect) if phase in (None, size.phase) else _NO_STEPS for size in _SIZES
    )


_NO_STEPS = Steps(np.zeros(0), np.zeros(0))


def _steps(rng: np.random.Generator, size: Size, effect: float) -> Steps:
    count = max(5, round(size.steps * rng.uniform(0.85, 1.15)))  # batches differ from run to run
    own = rng.normal(0, _STEP_NOISE, count)
    noise = np.empty(count)
    noise[0] = own[0]
    kept = sqrt(1 - size.autocorrelation**2)
    for step in range(1, count):
        noise[step] = size.autocorrelation * noise[step - 1] + kept * own[step]
    stalls = (rng.random(count) < _STALLS) * rng.exponential(_STALL, count)
    return Steps(_LANES * size.ns * effect * np.exp(noise), _LANES * size.ns * stalls)


def _shares(counts: Counter[str], pairs: int) -> str:
    told = (Verdict.SLOWER, Verdict.FASTER, Verdict.NO_CHANGE, Verdict.INCONCLUSIVE)
    return ", ".join(f"{verdict} {counts[verdict] / pairs:.1%}" for verdict in told)


if __name__ == "__main__":
    main()
