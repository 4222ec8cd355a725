"""Runs whose files are read by tasks of their own: the same rows, whatever becomes of a task."""

from pathlib import Path

import databases
import pytest
import traces
from executor_here import Here
from small_runs import all_reduce

import traceql
from traceql.errors import LakeError
from traceql.lake.add import Added, add_run
from traceql.lake.check import check_lake
from traceql.lake.executor.task import TaskLost
from traceql.lake.fan_out import add_runs
from traceql.lake.manifest import entries
from traceql.lake.places import store_at
from traceql.loading.reading import Workers

BATCH16 = databases.EXAMPLES / databases.BATCH16
RANKS = sorted((BATCH16 / "traces").iterdir())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read by processes, in order."""
    found: list[str] = []
    original = Workers.read

    def noted(self: Workers, request: object) -> None:
        found.append(Path(request.file).name)  # type: ignore[attr-defined]
        original(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(Workers, "read", noted)
    return found


def added(lake: Path, executor: Here, *runs: Path, again: bool = False) -> list[Added]:
    return list(add_runs(runs, str(lake), executor, again=again))


def ranks_of(folder: Path, *durations: float) -> Path:
    """A run of one rank per duration, each with one kernel."""
    folder.mkdir()
    for rank, dur in enumerate(durations):
        traces.write(folder / f"rank{rank}.json", traces.kernel(ts=0, dur=dur), rank=rank)
    return folder


def rows(lake: Path, sql: str = "FROM kernel ORDER BY ALL") -> list[dict[str, object]]:
    with traceql.open_lake(lake) as opened:
        return opened.sql(sql).rows()


@pytest.mark.slow
def test_each_file_is_read_once_and_then_the_run_is_added(tmp_path: Path, read: list[str]) -> None:
    executor = Here()
    (done,) = added(tmp_path / "lake", executor, BATCH16)
    assert executor.ran == [*RANKS, BATCH16]
    assert sorted(read) == [file.name for file in RANKS]
    assert done.entry.about.ranks == 2
    assert check_lake(str(tmp_path / "lake")).problems == ()
    assert [one.name for one in (tmp_path / "lake").iterdir() if one.name.startswith(".")] == []


@pytest.mark.slow
def test_the_rows_are_those_of_a_run_that_is_loaded_at_once(tmp_path: Path) -> None:
    one, other = tmp_path / "parted", tmp_path / "at once"
    added(one, Here(), BATCH16)
    add_run(BATCH16, other)
    for table in ("kernel", "collective", "layer", "gap", "cost", "trace", "ledger"):
        sql = f"FROM {table} ORDER BY ALL"
        assert rows(one, sql) == rows(other, sql), table


@pytest.mark.slow
def test_collectives_are_matched_over_64_ranks_that_were_read_one_by_one(tmp_path: Path) -> None:
    """Each rank is 1 us later than the one before, and the last never waits."""
    run, ranks = tmp_path / "run", range(64)
    for rank in ranks:
        events = [
            all_reduce(ts=1_000 * n + rank, dur=200 - rank, ranks=ranks, Seq=n) for n in range(6)
        ]
        info = {"rank": rank, "world_size": len(ranks)}
        traces.write(run / f"rank{rank}.json", *events, distributedInfo=info)
    executor = Here()
    added(tmp_path / "lake", executor, run)
    assert len(executor.ran) == 65
    found = rows(
        tmp_path / "lake",
        """
        SELECT rank, COUNT(DISTINCT match_id) AS matched, SUM(wait_ns) AS wait_ns
        FROM collective GROUP BY rank ORDER BY rank
        """,
    )
    assert [(row["rank"], row["matched"], row["wait_ns"]) for row in found] == [
        (rank, 6, 6 * (63 - rank) * 1_000) for rank in ranks
    ]


@pytest.mark.slow
def test_a_file_whose_task_is_lost_is_read_when_the_run_is_added(
    tmp_path: Path, read: list[str]
) -> None:
    executor = Here({RANKS[0]: TaskLost("its machine is gone")})
    (done,) = added(tmp_path / "lake", executor, BATCH16)
    assert done.entry.about.ranks == 2
    assert read == [RANKS[1].name, RANKS[0].name]


@pytest.mark.slow
def test_a_run_whose_task_is_lost_has_failed_until_it_is_added(tmp_path: Path) -> None:
    run, lake = ranks_of(tmp_path / "run", 5, 7), tmp_path / "lake"
    (done,) = added(lake, Here({run: TaskLost("it did not end in 9 s")}), run)
    assert entries(store_at(lake)) == [done.entry]
    assert (done.entry.status, done.entry.error) == ("failed", "it did not end in 9 s")
    added(lake, Here(), run)
    assert [one.status for one in entries(store_at(lake))] == ["ok"]


def test_a_file_that_cannot_be_read_is_told_as_by_a_load(tmp_path: Path) -> None:
    run = ranks_of(tmp_path / "run", 5, 7)
    bad = run / "rank1.json"
    bad.write_bytes(bad.read_bytes()[:-20])
    (done,) = added(tmp_path / "parted", Here(), run)
    assert done.entry.error == add_run(run, tmp_path / "at once").entry.error
    assert str(bad) in str(done.entry.error)


@pytest.mark.slow
def test_runs_are_added_before_files_of_others_are_read(tmp_path: Path) -> None:
    executor = Here()
    runs = [ranks_of(tmp_path / name, 5, dur) for name, dur in (("a", 1), ("b", 2))]
    added(tmp_path / "lake", executor, *runs)
    first, second = executor.ran[:3], executor.ran[3:]
    assert {one[-1] for one in (first, second)} == set(runs)
    assert all({file.parent for file in one[:2]} == {one[2]} for one in (first, second))


@pytest.mark.slow
def test_what_the_lake_has_is_not_read_again(tmp_path: Path, read: list[str]) -> None:
    run, executor = ranks_of(tmp_path / "run", 5, 7), Here()
    added(tmp_path / "lake", Here(), run)
    read.clear()
    (done,) = added(tmp_path / "lake", executor, run)
    assert not done.is_new
    assert (executor.ran, read) == ([run], [])
    (done,) = added(tmp_path / "lake", executor, run, again=True)
    assert done.is_new
    assert len(read) == 2


@pytest.mark.slow
def test_a_run_of_one_file_is_not_parted(tmp_path: Path) -> None:
    executor, run = Here(), ranks_of(tmp_path / "run", 5)
    added(tmp_path / "lake", executor, run)
    assert executor.ran == [run]


@pytest.mark.slow
def test_a_run_that_is_added_again_after_its_task_died_has_all_rows(tmp_path: Path) -> None:
    """What was read ahead stays until the run is added."""
    run, lake = ranks_of(tmp_path / "run", 5, 7), tmp_path / "lake"

    class Twice(Here):
        def ended(self) -> object:  # type: ignore[override]
            task = self._waiting[0]
            if task.reads == run:
                task.work()  # of which nobody hears
                (lake / "manifest").rename(tmp_path / "lost")
            return super().ended()

    added(lake, Twice(), run)
    assert [row["dur"] for row in rows(lake, "FROM kernel ORDER BY dur")] == [5_000, 7_000]


def test_a_machine_without_the_lake_is_told(tmp_path: Path) -> None:
    run, lake = ranks_of(tmp_path / "run", 5), tmp_path / "lake"

    class Elsewhere(Here):
        def ended(self) -> object:  # type: ignore[override]
            (lake / "lake.json").rename(tmp_path / "lake.json")
            return super().ended()

    with pytest.raises(LakeError, match="does not see the lake"):
        added(lake, Elsewhere(), run)
