"""The history of a folder of runs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceql.errors import TraceNotFound, TraceqlError
from traceql.result import Result
from traceql.runs.compare.sides import is_baseline
from traceql.runs.history.lookback import THRESHOLD, WINDOW
from traceql.runs.history.recordings import Recorded, day_and_time, recorded_runs, setups
from traceql.runs.history.series import (
    By,
    Point,
    Series,
    all_series,
    changes,
    compared_words,
    difference,
    shift,
    told,
    too_few,
    x_label,
)
from traceql.sql.query import Chart
from traceql.util.files import is_database

_DATABASE_SUFFIXES = (".duckdb", ".db")
_RUN_DOCUMENT = "run.json"


def run_places(folder: Path) -> list[Path]:
    """The places of runs, by their paths. What is inside a run is not looked at.

    Raises:
        TraceNotFound: the folder does not exist, or has no run in it.
        TraceqlError: it is no folder, or cannot be read.
    """
    if not folder.exists():
        raise TraceNotFound(f"{folder} does not exist; name a folder with the runs of a history")
    if not folder.is_dir():
        raise TraceqlError(f"{folder} is one file; name the folder that holds all runs")
    try:
        found = list(_places(folder, set()))
    except OSError as error:
        raise TraceqlError(f"{error.filename}: {error.strerror or error}") from None
    if not found:
        raise TraceNotFound(
            f"{folder} has no database, run directory or baseline in it; load traces with "
            f"traceql load TRACE... -o {folder / 'RUN.duckdb'}"
        )
    return found


def _places(folder: Path, seen: set[Path]) -> Iterator[Path]:
    if folder.resolve() in seen:
        return  # a link leads back
    seen.add(folder.resolve())
    if is_baseline(folder) or (folder / _RUN_DOCUMENT).is_file():
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _places(path, seen)
        elif path.suffix in _DATABASE_SUFFIXES and path.is_file() and is_database(path):
            yield path


_SCHEMA = pa.schema(
    [
        ("series", pa.int64()),
        ("title", pa.string()),
        ("setup", pa.string()),
        ("scope", pa.string()),
        ("metric", pa.string()),
        ("x", pa.string()),
        ("recorded", pa.string()),
        ("recorded_unix_ns", pa.int64()),
        ("time_from", pa.string()),
        ("commit", pa.string()),
        ("vllm_commit", pa.string()),
        ("branch", pa.string()),
        ("runs", pa.int64()),
        ("median_ns", pa.float64()),
        ("least_ns", pa.float64()),
        ("most_ns", pa.float64()),
        ("expected_ns", pa.float64()),
        ("change_pct", pa.float64()),
        ("deviation_ns", pa.float64()),
        ("margin_ns", pa.float64()),
        ("z", pa.float64()),
        ("mark", pa.string()),
        ("level_ns", pa.float64()),
        ("shift_pct", pa.float64()),
        ("shift", pa.string()),
        ("left_out_pct", pa.float64()),
        ("note", pa.string()),
        ("names", pa.list_(pa.string())),
    ]
)
# The columns of a table for people.
SHOWN = (
    "x", "runs", "median_ns", "least_ns", "most_ns", "change_pct", "z", "mark", "shift_pct",
    "commit", "time_from",
)  # fmt: skip
_CHANNELS = {
    "y": "median_ns",
    "label": "x",
    "low": "least_ns",
    "high": "most_ns",
    "level": "level_ns",
    "expected": "expected_ns",
    "margin": "margin_ns",
    "mark": "mark",
    "shift": "shift",
    "note": "note",
    "panel": "title",
}
_TIMES = {"x": "recorded_unix_ns"}


class History(Result):
    """One row per series and point; `.df()` and `.chart()` as of every result.

    Attributes:
        titles: of the series, those with a change first.
        told: what happened in each of them.
        has_change: whether that is a change.
        has_too_few: whether a series has too few points for that.
        skipped: a sentence for each run that is left out.
        by: what the points are: times or commits.
    """

    def __init__(self, series: Sequence[Series], skipped: Sequence[str], by: By) -> None:
        ordered = sorted(series, key=lambda one: not changes(one))
        rows = [
            _row(number, one, point, by)
            for number, one in enumerate(ordered)
            for point in one.points
        ]
        axis = _TIMES if by is By.TIME else {"x": "x"}
        super().__init__(pa.Table.from_pylist(rows, _SCHEMA), Chart("history", _CHANNELS | axis))
        self.titles = tuple(one.title for one in ordered)
        self.told = tuple(told(one, by) for one in ordered)
        self.has_change = tuple(bool(changes(one)) for one in ordered)
        self.has_too_few = tuple(bool(too_few(one)) for one in ordered)
        self.skipped = tuple(skipped)
        self.by = by

    @property
    def sentences(self) -> tuple[str, ...]:
        """What happened in each series."""
        return tuple(f"{title}: {told}" for title, told in zip(self.titles, self.told, strict=True))

    def of(self, series: int) -> Result:
        """The points of one series, by its number."""
        return self.where("series", series)

    @property
    def span(self) -> str:
        """How many runs there are, and from when to when."""
        rows = self.rows()
        runs = len({name for row in rows for name in row["names"]})
        times = [row["recorded_unix_ns"] for row in rows]
        return (
            f"{runs} {'run' if runs == 1 else 'runs'} from {day_and_time(min(times))} to "
            f"{day_and_time(max(times))} UTC, by {self.by.replace('-', ' of ')}"
        )


def history(
    folder: str | Path,
    *,
    by: str = By.TIME,
    metrics: str | Sequence[str] = (),
    accept: Collection[str] = (),
    threshold: float = THRESHOLD,
    lookback: int = WINDOW,
    on_place: Callable[[Path], None] = lambda place: None,
) -> History:
    """How the times of runs change, and since when.

    Args:
        folder: with databases, run directories and baselines, at any depth.
        by: time, commit (of the folder in which a run was started) or vllm-commit (of an unreleased
            vLLM). Runs of one commit, and those of one baseline, are repeats of one point.
        metrics: step, interval, a part of a step or a role, as `decode.step`; without a phase, of
            the steps of all phases together. The steps of each phase if empty.
        accept: names of facts of the set-up, or beginnings of names up to a dot, that may differ in
            a series; all for all of them.
        threshold: from which z-score on a value is marked.
        lookback: most points that a value is compared with.
        on_place: called with each run directory before it is read, which may take long.

    Raises:
        TraceqlError: the folder has no run that can be used.
    """
    order = _by(by)
    found, skipped = recorded_runs(run_places(Path(folder)), on_place)
    if order is not By.TIME:
        found = _with_commit(found, order, skipped)
    groups, incomplete = setups(found, accept=accept)
    skipped += incomplete
    if not groups:
        raise TraceqlError(_nothing_left(Path(folder), order, skipped))
    asked = [metrics] if isinstance(metrics, str) else list(metrics)
    series = all_series(groups, by=order, asked=asked, threshold=threshold, window=lookback)
    if not series:
        raise TraceqlError(f"the runs in {folder} have no steps; ask for another --metric")
    return History(series, skipped, order)


def _by(text: str) -> By:
    try:
        return By(text)
    except ValueError:
        raise TraceqlError(f"'{text}' is none of {', '.join(By)}") from None


def _with_commit(runs: Sequence[Recorded], by: By, skipped: list[str]) -> list[Recorded]:
    known = [bool(one.commit if by is By.COMMIT else one.vllm_commit) for one in runs]
    pairs = list(zip(runs, known, strict=True))
    skipped += [f"{one.run.name} notes no {by}" for one, is_known in pairs if not is_known]
    return [one for one, is_known in pairs if is_known]


def _nothing_left(folder: Path, by: By, skipped: Sequence[str]) -> str:
    if by is not By.TIME and all(reason.endswith(f"notes no {by}") for reason in skipped):
        if by is By.VLLM_COMMIT:
            return f"no run in {folder} is of an unreleased vLLM; use --by time"
        return (
            f"no run in {folder} notes its commit; start captures inside the git checkout, or use "
            "--by time"
        )
    more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
    return f"no run in {folder} can be used: {skipped[0]}{more}"


def _row(number: int, series: Series, point: Point, by: By) -> dict[str, Any]:
    first, looked = point.runs[0], point.looked
    time_ns, source = first.time
    moved, differs = shift(point), difference(point)
    return {
        "series": number,
        "title": series.title,
        "setup": series.setup,
        "scope": series.scope,
        "metric": series.metric,
        "x": x_label(point, by),
        "recorded": f"{datetime.fromtimestamp(time_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "recorded_unix_ns": time_ns,
        "time_from": source,
        "commit": first.commit or None,
        "vllm_commit": first.vllm_commit or None,
        "branch": first.facts.get("git.branch"),
        "runs": len(point.runs),
        "median_ns": point.ns,
        "least_ns": min(point.values),
        "most_ns": max(point.values),
        "expected_ns": looked.expected,
        "change_pct": None if differs is None else 100 * differs,
        "deviation_ns": looked.deviation,
        "margin_ns": looked.margin,
        "z": looked.z,
        "mark": looked.mark.value,
        "level_ns": looked.level,
        "shift_pct": None if moved is None else 100 * moved,
        "shift": compared_words(series, moved) if moved is not None else None,
        "left_out_pct": point.left_out_pct,
        "note": too_few(series),
        "names": [one.run.name for one in point.runs],
    }
