"""Load time against HolisticTraceAnalysis, first uses, queries, memory: ratios in one run.

    python benchmarks/bench.py FOLDER [--runs 3]

FOLDER holds one .json.gz per rank. HTA 0.5.0 runs from .venv/hta, where `make bench` puts it.
"""

import argparse
import gzip
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from click.testing import CliRunner
from measured_load import load

import traceql
from traceql.cli import cli
from traceql.sql.query import catalog

_EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "qwen3-8b-tp1-graph"
_HTA_PYTHON = str(_EXAMPLE.parents[1] / ".venv/hta/bin/python")
_GOALS = {"perfetto": 0.48, "stream": 0.38}  # of the load by each reader, compared with HTA
_WITH_INFO_GOAL = 0.58
_HTA = """
import sys, time
from hta.trace_analysis import TraceAnalysis
start = time.perf_counter()
TraceAnalysis(trace_dir=sys.argv[1])
print(time.perf_counter() - start)
"""
_OPEN = """
import sys, time
start = time.perf_counter()
import traceql
traceql.open(sys.argv[1])
print(time.perf_counter() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        database = Path(scratch) / "bench.duckdb"
        # The engine is compiled once per machine; that is not what is measured.
        traceql.load([_EXAMPLE], Path(scratch) / "warm.duckdb")
        _report_load(options.folder, database, options.runs)
        _report_queries(database)
        _report_example(Path(scratch), options.runs)
        _report_export(options.folder, database, options.runs)
        _report_memory(options.folder)
        _report_opening(options.folder)
    times = [_seconds(lambda: _output(sys.executable, "-m", "traceql", "--help")) for _ in range(5)]
    print(f"traceql --help, whole process {_spread(times)} s    (goal: under 0.3)")


def _report_load(folder: Path, database: Path, runs: int) -> None:
    ours: dict[str, list[float]] = {reader: [] for reader in _GOALS}
    theirs: list[float] = []
    with_info: list[float] = []
    for _ in range(runs):  # in turn, so that all see the same machine
        for reader, seconds in ours.items():
            database.unlink(missing_ok=True)
            seconds.append(
                _seconds(lambda reader=reader: traceql.load([folder], database, reader=reader))  # type: ignore[misc]
            )
            if reader == "perfetto":
                with_info.append(seconds[-1] + _seconds(lambda: _info(database)))
        theirs.append(float(_output(_HTA_PYTHON, "-c", _HTA, str(folder))))
    print(f"HTA 0.5.0, parse only         {_spread(theirs)} s")
    for reader, goal in _GOALS.items():
        print(f"load, --reader {reader:15}{_spread(ours[reader])} s")
        _print_ratios(ours[reader], theirs, goal)
    print(f"load, then info               {_spread(with_info)} s")
    _print_ratios(with_info, theirs, _WITH_INFO_GOAL)


def _print_ratios(ours: list[float], theirs: list[float], goal: float) -> None:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    print(f"ratio, run by run             {_spread(ratios)}    (goal: at most {goal})")


def _info(database: Path) -> None:
    done = CliRunner().invoke(cli, ["info", str(database)])
    if done.exit_code:
        raise SystemExit(done.output)


def _report_example(scratch: Path, runs: int) -> None:
    cpu = [load(_EXAMPLE, scratch).cpu_seconds for _ in range(runs)]
    print(f"load of the TP 1 example      {_spread(cpu)} CPU s    (goal: at most 1.3)")


def _report_export(folder: Path, database: Path, runs: int) -> None:
    """The enriched Perfetto trace, against loading."""
    from traceql.present.pftrace import export_perfetto

    ratios = []
    for _ in range(runs):
        database.unlink(missing_ok=True)
        loading = _seconds(lambda: traceql.load([folder], database))
        with traceql.open(database) as trace:
            target = database.with_suffix(".pftrace")
            exporting = _seconds(lambda: export_perfetto(trace, target))  # noqa: B023  # called here
        ratios.append(exporting / loading)
    print(f"export perfetto / load        {_spread(ratios)}    (goal: at most 1)")


def _report_memory(folder: Path) -> None:
    """Peak memory of the process that reads one rank, and of all processes of a streaming load."""
    from traceql.database.loading.reading import Workers
    from traceql.readers.worker import Request

    files = {}
    for path in folder.glob("*.json.gz"):
        with gzip.open(path) as opened:
            files[path] = opened.seek(0, 2)
    file = max(files, key=files.__getitem__)
    with tempfile.TemporaryDirectory() as scratch:
        Workers().read(Request(str(file), f"{scratch}/0"))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        _print_peak("peak memory, one rank", peak, files[file], "8")
        whole = load(folder, Path(scratch), "--reader", "stream")
        _print_peak("all processes, stream", whole.peak_bytes, sum(files.values()), "1.5")


def _print_peak(what: str, peak_bytes: int, json_bytes: int, goal: str) -> None:
    print(
        f"{what:30}{peak_bytes / 1e6:.0f} MB for {json_bytes / 1e6:.0f} MB of JSON, "
        f"{peak_bytes / json_bytes:.1f} times    (goal: at most {goal})"
    )


def _report_queries(database: Path) -> None:
    """Each query for the first time after a load, and again in the same process."""
    first, again = {}, {}
    size = database.stat().st_size / 1e6
    for name in catalog():
        fresh = database.with_name("fresh.duckdb")
        shutil.copyfile(database, fresh)
        with traceql.open(fresh) as trace:
            first[name] = _seconds(lambda name=name: trace.query(name))  # type: ignore[misc]
            again[name] = _seconds(lambda name=name: trace.query(name))  # type: ignore[misc]
    print(f"size after a load             {size:.1f} MB    (goal: at most 35)")
    for what, times, goal in (("first use", first, 2), ("second use", again, 0.3)):
        for name, seconds in sorted(times.items(), key=lambda item: -item[1])[:4]:
            print(f"{what}, {name:24}{seconds:.3f} s")
        print(f"slowest {what} of {len(times)}     {max(times.values()):.3f} s    (goal: {goal})")


def _report_opening(folder: Path) -> None:
    """The first time a folder of traces is opened it is loaded into the cache; then not again."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache}
        command = (sys.executable, "-c", _OPEN, str(folder))
        _output(*command, env=environment)
        times = [float(_output(*command, env=environment)) for _ in range(5)]
    print(f"second open, import included  {_spread(times)} s    (goal: under 0.3)")


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _output(*command: str, env: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip().splitlines()[-1]


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
