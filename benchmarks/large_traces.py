"""Loads of JSON traces of any size: time, memory and disk, and how long queries take then.

    python benchmarks/large_traces.py TRACE.json.gz [--copies 7 65] [--memory 1700MiB] [--keep DIR]

A large trace is a real one, repeated, each time later and with ids of its own. What
its database says is known in advance: N times the slices, kernels and steps of the small one.
"""

import argparse
import gzip
import re
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

from measured_load import load

import traceql

# Times in µs and ids that must differ between copies; a flow's id is the only "id" of an event.
_CHANGED = re.compile(r'("ts"|"correlation"|"External id"|"id"): ?(-?\d+(?:\.\d+)?)')
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_ID_STEP = 1 << 24
_PAUSE_US = 1000
_QUERIES = ("overview.findings", "kernels.top", "time.breakdown", "ops.top")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--copies", type=int, nargs="+", default=[7, 65])
    parser.add_argument("--memory", default="1700MiB")
    parser.add_argument("--keep", type=Path, help="folder for the large traces, which are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.keep) as scratch:
        load(options.trace, Path(scratch), "--memory", options.memory)
        once = counts(Path(scratch))
        for copies in options.copies:
            large = (options.keep or Path(scratch)) / f"{copies}.json"
            if not large.exists():
                repeat(options.trace, large, copies)
            size = large.stat().st_size
            found = load(large, Path(scratch), "--memory", options.memory)
            print(
                f"{size / 1e9:.2f} GB: {found.seconds:.0f} s, {found.cpu_seconds:.0f} s of CPU, "
                f"{found.seconds / size * 1e9:.1f} s a GB; peak of memory "
                f"{found.peak_bytes / 1e6:,.0f} MB, of disk {found.disk_bytes / 1e9:.1f} GB"
            )
            wanted = {what: number * copies for what, number in once.items()}
            assert counts(Path(scratch)) == wanted, (counts(Path(scratch)), wanted)
            ask(Path(scratch) / "x.duckdb")


def counts(folder: Path) -> dict[str, int]:
    """How many rows some tables of the database have."""
    with traceql.open(folder / "x.duckdb") as trace:
        return {
            table: trace.select(f"SELECT COUNT(*) AS n FROM {table}").rows()[0]["n"]
            for table in ("slice", "flow", "kernel", "launch", "step")
        }


def ask(database: Path) -> None:
    """Prints how long commands take: those of one step, and those of the whole recording."""
    step = "SELECT step_id FROM step WHERE gpu_dur IS NOT NULL ORDER BY step_id LIMIT 1"
    with traceql.open(database) as trace:
        number = trace.select(step).rows()[0]["step_id"]
    for command in (
        ["run", "step.waterfall", str(database), "--step", str(number)],
        ["sql", f"SELECT name, dur FROM kernel WHERE step_id = {number}", str(database)],
        *(["run", name, str(database)] for name in _QUERIES),
    ):
        begin = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-m", "traceql", *command], stdout=subprocess.DEVNULL, check=False
        )
        took = time.perf_counter() - begin
        print(f"  {' '.join(command[:2])[:60]}: {took:.2f} s (exit status {ended.returncode})")


def repeat(trace: Path, large: Path, copies: int) -> None:
    """Writes N copies of all events of a trace, one after the other in time."""
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt") as file:
        text = file.read()
    begin = _EVENTS.search(text)
    assert begin
    end = text.rindex("]")
    pieces = _CHANGED.split(text[begin.end() : end])
    fixed, kinds, values = pieces[0::3], pieces[1::3], pieces[2::3]
    # From one copy to the next, µs; copies do not overlap by more than an open slice.
    times = [Decimal(v) for k, v in zip(kinds, values, strict=True) if k == '"ts"' and v != "0"]
    period = max(times) - min(times) + _PAUSE_US
    with large.open("w") as out:
        out.write(text[: begin.end()])
        for copy in range(copies):
            out.write("," * (copy > 0))
            changed = [_changed(k, v, copy, period) for k, v in zip(kinds, values, strict=True)]
            out.write("".join(a + b for a, b in zip(fixed, [*changed, ""], strict=True)))
        out.write(text[end:])


def _changed(kind: str, value: str, copy: int, period: Decimal) -> str:
    if kind == '"ts"':
        return f"{kind}: {Decimal(value) + period * copy if copy else value}"
    return f"{kind}: {int(value) + _ID_STEP * copy if value != '0' else value}"


if __name__ == "__main__":
    main()
