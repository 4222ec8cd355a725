"""The metrics of a history, and their values in the runs of one set-up."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.errors import QueryInvalid
from traceql.runs import compare
from traceql.runs.history.recordings import Recorded
from traceql.util.text import source_text, suggestion

STEP = "step"
_WITHOUT_WORK = "idle"  # a phase; its steps are selected only by name


def select_series(
    selected: Sequence[str], phases: Sequence[str], metrics: Collection[str]
) -> list[tuple[str, str]]:
    """Scope and metric of each selected series that the runs have; scope all without a phase.

    Args:
        selected: texts of the form [PHASE.]METRIC; the steps of each phase if empty.
        phases, metrics: of the runs.
    """
    if not selected:
        return [(phase, STEP) for phase in phases if phase != _WITHOUT_WORK]
    found: dict[tuple[str, str], None] = {}
    for text in selected:
        scope, _, metric = text.partition(".")
        if text in metrics:
            found[ALL, text] = None
        elif scope in (*phases, ALL) and metric in metrics:
            found[scope, metric] = None
    return list(found)


def require_known(
    selected: Iterable[str], phases: Collection[str], metrics: Collection[str]
) -> None:
    """Rejects metrics that no run has.

    Raises:
        QueryInvalid: the message suggests the closest names.
    """
    scoped = [f"{scope}.{metric}" for scope in (*sorted(phases), ALL) for metric in sorted(metrics)]
    for text in selected:
        if text not in metrics and text not in scoped:
            names = scoped if "." in text else sorted(metrics)
            hint = suggestion(text, names) or f"there are {', '.join(sorted(metrics))}"
            raise QueryInvalid(f"no run has the metric '{text}'; {hint}")


ALL = "all"  # the scope of all phases
_OF_COMPARISON = Path(compare.__file__).parent / "tables"
_OWN = Path(__file__).parent / "tables"
_PROFILES = ("stratum", "metric")
_LEAST_SHARED = 0.5  # share of the time of each run in strata that all runs of a series have
_SIZES = """
    SELECT run, stratum, gpu_ns
    FROM every_stratum
    WHERE grain = (SELECT grain FROM grain) AND ($scope = 'all' OR phase = $scope)
    ORDER BY run, stratum
"""
_PHASES = """
    SELECT phase
    FROM every_stratum
    WHERE grain = (SELECT grain FROM grain)
    GROUP BY phase
    ORDER BY SUM(gpu_ns / lanes ORDER BY run, stratum) DESC, phase
"""
_METRICS = """
    SELECT DISTINCT metric, kind FROM every_metric
    WHERE kind NOT IN ('wait', 'unmatched')
    ORDER BY metric
"""
_VALUES = "SELECT run, ns FROM run_value WHERE scope = $scope AND metric = $metric"
_LARGEST = """
    SELECT stratum FROM stratum
    INNER JOIN profile_stratum USING (stratum)
    WHERE stratum.is_compared AND profile_stratum.grain = (SELECT grain FROM grain)
    GROUP BY stratum ORDER BY SUM(gpu_ns) DESC, stratum LIMIT 1
"""


@dataclass(frozen=True)
class Mix:
    """Runs that share most of their strata of a scope.

    Attributes:
        runs: their numbers in the set-up.
        largest: the stratum that takes most of their time.
        left_out_pct: for each of them, the share of its time that is not compared.
    """

    runs: tuple[int, ...]
    largest: str
    left_out_pct: dict[int, float]


class Values(AbstractContextManager["Values"]):
    """The values of the runs of one set-up."""

    def __init__(self, runs: Sequence[Recorded]) -> None:
        self._con = duckdb.connect(config={"threads": 2})
        for name in _PROFILES:
            tables = [
                one.run.profile[name]
                .append_column("side", pa.array(["base"] * len(one.run.profile[name]), pa.string()))
                .append_column("run", pa.array([number] * len(one.run.profile[name]), pa.int64()))
                for number, one in enumerate(runs)
            ]
            self._create(f"every_{name}", pa.concat_tables(tables))
            self._con.execute(f"CREATE VIEW profile_{name} AS FROM every_{name}")
        self._make(_OF_COMPARISON, "grain")

    @property
    def phases(self) -> list[str]:
        """The phases of all steps, the one that takes most of the time first."""
        return [phase for (phase,) in self._con.execute(_PHASES).fetchall()]

    @property
    def metrics(self) -> dict[str, str]:
        """The metrics that any run has, each with its kind: whole, part or role."""
        return dict(self._con.execute(_METRICS).fetchall())

    def mixes(self, scope: str) -> Iterator[Mix]:
        """The groups of runs for a scope, the one with the earliest run first.

        Read the values of a group before the next group.
        """
        times: dict[int, dict[str, int]] = {}
        for run, stratum, ns in self._con.execute(_SIZES, {"scope": scope}).fetchall():
            times.setdefault(run, {})[stratum] = ns
        for runs in _sharing(times):
            self._choose(scope, runs)
            left_out = self._rows("left_out")
            largest = self._con.execute(_LARGEST).fetchall()
            yield Mix(tuple(runs), largest[0][0], {run: share or 0.0 for run, share in left_out})

    def of(self, mix: Mix, scope: str, metric: str) -> dict[int, float]:
        """Time of the metric in a step of the scope for each run of the mix, ns; 0 without any."""
        found = self._con.execute(_VALUES, {"scope": scope, "metric": metric}).fetchall()
        return dict.fromkeys(mix.runs, 0.0) | dict(found)

    def close(self) -> None:
        self._con.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _choose(self, scope: str, runs: Sequence[int]) -> None:
        phases = self.phases if scope == ALL else [scope]
        self._create("member", pa.table({"run": pa.array(runs, pa.int64())}))
        self._create("scope_phase", pa.table({"phase": pa.array(phases, pa.string())}))
        for name in _PROFILES:
            chosen = f"SELECT * FROM every_{name} WHERE run IN (FROM member)"
            self._con.execute(f"CREATE OR REPLACE VIEW profile_{name} AS {chosen}")
        self._make(_OWN, "stratum")
        for name in ("weight", "run_stratum", "run_value"):
            self._make(_OF_COMPARISON, name)

    def _make(self, folder: Path, name: str) -> None:
        text = source_text(folder / f"{name}.sql")
        self._con.execute(f"CREATE OR REPLACE TABLE {name} AS {text}")

    def _rows(self, name: str) -> list[tuple[int, float | None]]:
        return self._con.execute(source_text(_OWN / f"{name}.sql")).fetchall()

    def _create(self, name: str, rows: pa.Table) -> None:
        self._con.register("rows_of_table", rows)
        self._con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM rows_of_table")
        self._con.unregister("rows_of_table")


def _sharing(times: dict[int, dict[str, int]]) -> list[list[int]]:
    """Groups of runs: in each, the strata of all have at least half of the time of every run."""
    groups: list[tuple[list[int], set[str]]] = []
    for run, own in times.items():
        for place, (runs, shared) in enumerate(groups):
            both = shared & own.keys()
            if all(_share(times[each], both) >= _LEAST_SHARED for each in (*runs, run)):
                groups[place] = ([*runs, run], both)
                break
        else:
            groups.append(([run], set(own)))
    return [runs for runs, _ in groups]


def _share(own: dict[str, int], strata: set[str]) -> float:
    whole = sum(own.values())
    return sum(ns for stratum, ns in own.items() if stratum in strata) / whole if whole else 1.0
