"""What HolisticTraceAnalysis, TraceLens and traceql say about two traces, and how long they take.

    python benchmarks/compare_tools.py BASE.json.gz NEW.json.gz [--runs 3] [--said FOLDER]
        [--hta PYTHON] [--tracelens PYTHON]

HTA and TraceLens run in environments of their own, by default .venv/hta and .venv/tracelens; one
that is not there is left out. All tools get the same two files, one rank of each side. They take
turns, so that they see the same machine; of each, the fastest run counts, wall and CPU time of the
whole process with its children. What they say last is printed; --said keeps all of it.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parent.parent
_LINES = 12  # that are printed of what a tool says

_HTA = """
import sys
from hta.trace_diff import TraceDiff
found = TraceDiff.compare_traces(sys.argv[1], sys.argv[2])
print(found.counts_change_categories.value_counts().to_dict())
print(found.sort_values("diff_duration", key=abs).tail(8).to_string(max_colwidth=60))
"""
_TRACELENS_REPORTS = """
import sys, pathlib
from TraceLens.Reporting.compare_perf_reports_pytorch import main as compare
from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch
scratch = pathlib.Path(sys.argv[3])
books = []
for side, file in zip(("base", "new"), sys.argv[1:3]):
    books.append(str(scratch / f"{side}.xlsx"))
    generate_perf_report_pytorch(file, output_xlsx_path=books[-1], kernel_summary=True)
sys.argv = [
    "compare", *books, "--names", "base", "new", "--sheets", "all",
    "-o", str(scratch / "compared.xlsx"), "--output_csvs_dir", str(scratch / "sheets"),
]
compare()
for sheet in ("ops_summary.csv", "gpu_timeline.csv"):
    lines = (scratch / "sheets" / sheet).read_text().splitlines()
    print(*(",".join(line.split(",")[:4]) for line in lines[:9]), sep="\\n")
"""
_TRACELENS_DIFF = """
import sys
from TraceLens import TraceDiff, TreePerfAnalyzer
trees = [TreePerfAnalyzer.from_file(file).tree for file in sys.argv[1:3]]
found = TraceDiff(*trees)
found.generate_tracediff_report()
rows = found.diff_stats_df
print(len(rows), "rows of kernels of single operators; without a partner in the other trace:")
both = rows.groupby("lowest_common_ancestor_id")["source"].nunique()
print((both < 2).sum(), "of", len(both), "lowest common ancestors")
total = rows.groupby(["lowest_common_ancestor_name", "source"])["kernel_time"].sum().unstack()
total = total.fillna(0)
total["diff"] = total.iloc[:, 1] - total.iloc[:, 0]
print(total.sort_values("diff", key=abs).tail(8).to_string(max_colwidth=60))
"""
_TRACEQL = """
import sys, traceql
from traceql.runs.compare import diff
found = diff(sys.argv[1], sys.argv[2])
print("no verdict: " + found.forbidden if found.forbidden else "comparable")
for scope in found.scopes:
    for row in found.sql(
        "SELECT metric, base / 1e6 AS base, new / 1e6 AS new, change_pct, verdict FROM change "
        "WHERE scope = $scope AND metric = 'step'", {"scope": scope}
    ).rows():
        print("{}.{metric}: {base:.2f} to {new:.2f} ms, {change_pct:+.1f}%, {verdict}".format(scope, **row))
    for row in found.sql(
        "SELECT cause, kind, delta_ns / 1e3 AS us FROM cause WHERE scope = $scope "
        "ORDER BY ABS(delta_ns) DESC LIMIT 5", {"scope": scope}
    ).rows():
        print("  {us:+9.1f} us  {cause} ({kind})".format(**row))
"""  # noqa: E501 (as it would be typed)


class Way(NamedTuple):
    """A way to compare two traces: a program for an interpreter."""

    name: str
    python: Path
    program: str


class Answer(NamedTuple):
    """What a process said, and the seconds that it took."""

    said: str
    failed: bool
    wall: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--said", type=Path, help="folder for all that the tools say")
    parser.add_argument("--hta", type=Path, default=_ROOT / ".venv/hta/bin/python")
    parser.add_argument("--tracelens", type=Path, default=_ROOT / ".venv/tracelens/bin/python")
    options = parser.parse_args()
    ways = [
        Way("HTA TraceDiff.compare_traces", options.hta, _HTA),
        Way("TraceLens, two reports and compare", options.tracelens, _TRACELENS_REPORTS),
        Way("TraceLens TraceDiff", options.tracelens, _TRACELENS_DIFF),
        Way("traceql, new traces", Path(sys.executable), _TRACEQL),
        Way("traceql, traces known", Path(sys.executable), _TRACEQL),
    ]
    for way in ways:
        if not way.python.exists():
            print(f"{way.name}: not installed in {way.python.parent.parent.name}, left out")
    ways = [way for way in ways if way.python.exists()]
    with tempfile.TemporaryDirectory() as scratch:
        answers = _answers(ways, options.base, options.new, options.runs, Path(scratch))
    for way in ways:
        of_way = answers[way.name]
        wall, cpu = (min(getattr(one, name) for one in of_way) for name in ("wall", "cpu"))
        failed = ", fails" if of_way[-1].failed else ""
        print(f"\n{way.name}: {wall:.2f} s, {cpu:.2f} s of CPU{failed}")
        lines = of_way[-1].said.splitlines()
        print("".join(f"    {line[:150]}\n" for line in lines[-_LINES:]), end="")
        if options.said:
            options.said.mkdir(parents=True, exist_ok=True)
            (options.said / f"{way.name.replace(' ', '_')}.txt").write_text(of_way[-1].said)


def _answers(
    ways: list[Way], base: Path, new: Path, runs: int, scratch: Path
) -> dict[str, list[Answer]]:
    """What each way answers, in turn."""
    files = [_alone(file, scratch / side) for file, side in ((base, "base"), (new, "new"))]
    known = scratch / "known"
    _asked(Way("warm-up", Path(sys.executable), _TRACEQL), files, known, scratch)
    answers: dict[str, list[Answer]] = {way.name: [] for way in ways}
    for turn in range(runs):
        for way in ways:
            is_known = way.name.endswith("known")
            cache = known if is_known else _with_engine(known, scratch / str(turn))
            given = [file.parent for file in files] if "HTA" in way.name else files
            answers[way.name].append(_asked(way, given, cache, scratch))
    return answers


def _alone(file: Path, folder: Path) -> Path:
    """The file in a folder of its own: HTA takes folders."""
    folder.mkdir()
    return Path(shutil.copy(file, folder))


def _with_engine(known: Path, cache: Path) -> Path:
    """A cache that holds the engine, which is compiled once per machine, but no trace."""
    (cache / "traceql").mkdir(parents=True, exist_ok=True)
    for compiled in (known / "traceql").glob("*.cwasm"):
        shutil.copy(compiled, cache / "traceql")
    return cache


def _asked(way: Way, given: list[Path], cache: Path, scratch: Path) -> Answer:
    environment: Mapping[str, str] = os.environ | {"XDG_CACHE_HOME": str(cache)}
    if way.python != Path(sys.executable):
        environment = {k: v for k, v in environment.items() if k != "PYTHONPATH"}
    command = [str(way.python), "-c", way.program, *map(str, given), str(scratch)]
    before, start = _cpu_of_children(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    wall, cpu = time.perf_counter() - start, _cpu_of_children() - before
    failed = done.returncode != 0
    return Answer(done.stdout + (done.stderr if failed else ""), failed, wall, cpu)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
