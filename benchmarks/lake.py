"""Seconds, also of processors, to fill a lake with two processes, and of each query on it.

    python benchmarks/lake.py [--loads 4] [--runs 500] [--compact] [DATABASE...]

Adds copies of databases (by default of a bundled run, which is loaded first), whose traces get
other SHA-256, with two `traceql lake add` at once. More runs are links to the files of these, with
manifest rows of their own: a query cannot tell.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import duckdb

from traceql.database.loading.load import load
from traceql.runs.lake import open_lake
from traceql.runs.lake.maintenance import compact
from traceql.runs.lake.manifest import StoredFile, entries, write_entry
from traceql.runs.lake.store import Store, own_name, store_at
from traceql.util.resources import EXAMPLES

_EXAMPLE = EXAMPLES / "qwen3-32b-tp4-graph-nccl"
_SQL = {
    "kernels by category": "SELECT category, SUM(dur) FROM kernel GROUP BY category",
    "kernels of a run": "SELECT COUNT(*) FROM kernel WHERE run = (SELECT MIN(run) FROM lake_run)",
}


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        lake = Path(folder) / "lake"
        sources = options.databases or [load(_EXAMPLE, Path(folder) / "example.duckdb").database]
        copies = list(_copies(sources, Path(folder) / "copies", options.loads))
        with _told(f"add {len(copies)} runs, two processes"):
            _add_by_two(copies, lake)
        shutil.rmtree(Path(folder) / "copies")
        _repeat(store_at(lake), lake, options.runs)
        _ask(lake)
        if options.compact:
            with _told("compact"):
                print(compact(str(lake)))
            _ask(lake)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("databases", nargs="*", type=Path)
    parser.add_argument("--loads", type=int, default=4)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--compact", action="store_true", help="ask again after a compaction")
    parser.add_argument("--folder", type=Path, help="where the lake is made for the time")
    return parser.parse_args()


def _copies(databases: Sequence[Path], folder: Path, count: int) -> Iterator[Path]:
    folder.mkdir()
    for number in range(count):
        copy = folder / f"copy{number}.duckdb"
        shutil.copyfile(databases[number % len(databases)], copy)
        with duckdb.connect(str(copy)) as con:
            con.execute("UPDATE trace SET sha256 = sha256(sha256 || ?)", [str(number)])
        yield copy


def _add_by_two(copies: Sequence[Path], lake: Path) -> None:
    halves = [copies[0::2], copies[1::2]]
    command = [sys.executable, "-m", "traceql", "lake", "add", "--jobs", "1", "--lake", str(lake)]
    writers = [subprocess.Popen([*command, *map(str, half)]) for half in halves if half]
    if any(writer.wait() for writer in writers):
        sys.exit("a writer failed")


def _repeat(store: Store, lake: Path, runs: int) -> None:
    """Links the files of the runs until there are enough."""
    found = entries(store)
    for number in range(len(found), runs):
        entry = found[number % len(found)]
        digest = sha256(f"{entry.digest} {number}".encode()).hexdigest()
        run = f"linked{number}-{digest[:8]}"
        tables = {name: _linked(lake, name, run, one) for name, one in entry.tables.items()}
        write_entry(store, replace(entry, run=run, digest=digest, given=digest, tables=tables))


def _linked(lake: Path, table: str, run: str, one: StoredFile) -> StoredFile:
    name = own_name(table, run, one.sha256)
    (lake / name).parent.mkdir(parents=True)
    os.link(lake / one.file, lake / name)
    return replace(one, file=name)


def _ask(lake: Path) -> None:
    with _told("open"):
        opened = open_lake(lake)
    found = opened.entries
    kernels = sum(one.tables["kernel"].rows for one in found if "kernel" in one.tables)
    print(f"{len(found)} runs, {kernels:,} kernels")
    asked: dict[str, Callable[[], object]] = {
        **{name: partial(opened.run, name) for name in opened.fleet_queries},
        **{name: partial(opened.sql, sql) for name, sql in _SQL.items()},
    }
    for name, ask in asked.items():
        with _told(name):
            ask()
    with _told("kernels.top of one run"):
        opened.run("kernels.top", where=f"run = '{found[0].run}'")
    opened.close()


@contextmanager
def _told(what: str) -> Iterator[None]:
    begin, busy = time.perf_counter(), _busy()
    yield
    took = time.perf_counter() - begin
    print(f"{took:8.2f} s {_busy() - busy:8.2f} s of processors  {what}", flush=True)


def _busy() -> float:
    """What this process and those that it waited for took of processors, s."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
