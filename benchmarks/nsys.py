"""An export of Nsight Systems against the JSON of the same events: time and memory of a load.

    python benchmarks/nsys.py [EXPORT.sqlite.gz] [--mb 200] [--runs 3] [--memory 2GiB]

The export is repeated, each time later and with correlation ids of its own, up to so many MB.
"""

import argparse
import gzip
import json
import sqlite3
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from measured_load import load

_ROOT = Path(__file__).resolve().parent.parent
_EXPORT = _ROOT / "tests" / "data" / "nsys" / "qwen3-8b-2layers-eager.sqlite.gz"
_CUPTI = "CUPTI_ACTIVITY_KIND_"
_TABLES = (*(_CUPTI + kind for kind in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")), "NVTX_EVENTS")
_ID_STEP = 1 << 20
_KINDS = ((f"{_CUPTI}KERNEL", "kernel"), (f"{_CUPTI}MEMCPY", "gpu_memcpy"),
          (f"{_CUPTI}MEMSET", "gpu_memset"))  # fmt: skip
_OF_KERNEL = (
    "demangledName, registersPerThread, staticSharedMemory, dynamicSharedMemory, "
    "gridX, gridY, gridZ, blockX, blockY, blockZ"
)
_SMS = 132


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", type=Path, nargs="?", default=_EXPORT)
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default="2GiB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        export, trace = Path(scratch) / "export.sqlite", Path(scratch) / "trace.json"
        repeat(options.export, export, options.mb * 1_000_000)
        with closing(sqlite3.connect(export)) as con:
            events = write_json(con, trace)
        sizes = [file.stat().st_size / 1e6 for file in (export, trace)]
        print(f"{events:,} events: {sizes[0]:.0f} MB of SQLite, {sizes[1]:.0f} MB of JSON")
        measured = [
            [load(file, Path(scratch), "--memory", options.memory) for file in (export, trace)]
            for _ in range(options.runs)
        ]
    for number, name in enumerate(("SQLite", "JSON")):
        seconds, peak = (
            statistics.median(getattr(run[number], what) for run in measured)
            for what in ("seconds", "peak_bytes")
        )
        print(
            f"load of {name:7} {seconds:7.1f} s   peak of all processes {peak / 1e6:,.0f} MB, "
            f"{peak / events:.0f} B for each event"
        )
    ratios = sorted(of_export.seconds / of_json.seconds for of_export, of_json in measured)
    print(f"time, run by run: {', '.join(f'{ratio:.2f}' for ratio in ratios)}  (goal: at most 1)")


def repeat(source: Path, target: Path, size: int) -> None:
    """Writes the rows of an export as often as it takes to fill so many bytes."""
    packed = source.read_bytes()
    target.write_bytes(gzip.decompress(packed) if source.suffix == ".gz" else packed)
    with closing(sqlite3.connect(target)) as con:
        tables = [table for table in _TABLES if columns(con, table)]
        spans = [con.execute(f'SELECT MIN(start), MAX("end") FROM {t}').fetchone() for t in tables]
        period = max(last for _, last in spans if last) - min(first for first, _ in spans if first)
        copies = max(1, size // target.stat().st_size)
        while True:
            for table in tables:
                add(con, table, period, copies)
            con.commit()
            if target.stat().st_size >= size * 0.9:
                return
            copies = round(copies * size / target.stat().st_size)
            for table in tables:
                con.execute(
                    f"DELETE FROM {table} WHERE start >= (SELECT MIN(start) FROM {table}) + ?",
                    [period],
                )


def add(con: sqlite3.Connection, table: str, period: int, copies: int) -> None:
    """Adds so many copies of the rows of a table, one period after another."""
    moved = {"start": "start + n * :period", "end": '"end" + n * :period',
             "correlationId": f"correlationId + n * {_ID_STEP}"}  # fmt: skip
    listed = ", ".join(moved.get(name, f'"{name}"') for name in columns(con, table))
    con.execute(
        f"WITH RECURSIVE copy(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copy WHERE n < :copies) "
        f"INSERT INTO {table} SELECT {listed} FROM copy CROSS JOIN {table}",
        {"period": period, "copies": copies},
    )


def columns(con: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in con.execute("SELECT name FROM pragma_table_info(?)", [table])]


def write_json(con: sqlite3.Connection, path: Path) -> int:
    """Writes the events as PyTorch's profiler would, without its arrows; returns their number."""
    number = 0
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for number, event in enumerate(events_of(con), 1):
            file.write(f"{',' if number > 1 else ''}{json.dumps(event)}\n")
        file.write("]}")
    return number


def events_of(con: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    text = dict(con.execute("SELECT id, value FROM StringIds"))
    for table, cat in _KINDS:
        if not columns(con, table):
            continue
        is_kernel = cat == "kernel"
        more = _OF_KERNEL if is_kernel else "bytes"
        for start, end, *place, told in (
            (*row[:6], row[6:])
            for row in con.execute(
                'SELECT start, "end", deviceId, contextId, streamId, correlationId, '
                f"{more} FROM {table}"
            )
        ):
            args = dict(zip(("device", "context", "stream", "correlation"), place, strict=True))
            args |= kernel_arguments(*told) if is_kernel else {"bytes": told[0]}
            name = text[told[0]] if is_kernel else cat
            yield event(cat, name, start, end, place[0], place[2], args)
    for start, end, thread, correlation, name, eventclass in con.execute(
        f'SELECT start, "end", globalTid, correlationId, nameId, eventClass FROM {_CUPTI}RUNTIME'
    ):
        cat = "cuda_driver" if eventclass else "cuda_runtime"
        yield event(cat, text[name], start, end, thread >> 24 & 0xFFFFFF, thread & 0xFFFFFF,
                    {"cbid": 211, "correlation": correlation})  # fmt: skip
    for start, end, thread, name, by_id in con.execute(
        'SELECT start, "end", globalTid, text, textId FROM NVTX_EVENTS '
        'WHERE eventType = 59 AND "end" IS NOT NULL'
    ):
        yield event("user_annotation", name or text[by_id], start, end, thread >> 24 & 0xFFFFFF,
                    thread & 0xFFFFFF, {})  # fmt: skip


def kernel_arguments(_name: int, *values: int) -> dict[str, Any]:
    """Those that PyTorch's profiler writes, as far as the export has them."""
    registers, static, dynamic, *sizes = values
    grid, block = sizes[:3], sizes[3:]
    blocks = grid[0] * grid[1] * grid[2] / _SMS
    return {
        "queued": 0, "registers per thread": registers, "shared memory": static + dynamic,
        "blocks per SM": blocks, "warps per SM": blocks * block[0] * block[1] * block[2] / 32,
        "grid": grid, "block": block,
    }  # fmt: skip


def event(
    cat: str, name: str, start: int, end: int, pid: int, tid: int, args: dict[str, Any]
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start / 1000,
            "dur": (end - start) / 1000, "args": args}  # fmt: skip


if __name__ == "__main__":
    main()
