"""The hand-written protobuf and JSON paths against the libraries that they replace.

    python benchmarks/codecs.py [TRACE.json.gz] [--runs 5]

TRACE is a PyTorch profiler trace; by default a bundled one, which is too small to say much about
memory. Both sides of a comparison alternate, so that they see the same machine. Memory is what a
process of its own adds to its peak.
"""

import argparse
import gzip
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from traceql.present.pftrace.packets import Interning, begin_packets
from traceql.readers.trace_processor import TraceProcessor, arrow_table, open_trace_processor
from traceql.util.resources import EXAMPLE_TRACE

_ROWS = 200_000
_SQL = f"""
    WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < {_ROWS - 1})
    SELECT x, x * 1000003 AS ts, x % 977 AS dur, x / 7.0 AS share, 'kernel ' || (x % 50) AS name
    FROM n
"""
# Each prints the seconds it takes, and what it adds to the peak memory of the process in MB.
_JSON = {
    "json.load of the whole text": "json.loads(igzip.open(path).read())",
    "msgspec, the whole text": "msgspec.json.decode(igzip.open(path).read())",
    "msgspec, whole text, typed": "kineto_json._TRACE.decode(igzip.open(path).read())",
    "in batches (kineto_json)": "deque(kineto_json.KinetoJson(path), maxlen=0)",
}
_MEASURED = """
import gc, json, sys, time
from collections import deque
from pathlib import Path
import msgspec
from isal import igzip
from traceql.readers.formats.kineto import kineto_json
gc.disable()
path = Path(sys.argv[1])
def peak_mb():  # getrusage would count the peak of the process that started this one
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
before, start = peak_mb(), time.perf_counter()
kept = {code}
print(time.perf_counter() - start, peak_mb() - before)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path, nargs="?", default=next(EXAMPLE_TRACE.glob("**/*.gz")))
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with open_trace_processor() as tp:
        _compare(
            f"reading a query result of {_ROWS:,} rows",
            {
                "the engine's part of it": lambda: tp._backend.query_bytes(_SQL),
                "protobuf's objects": lambda: _table_of_objects(tp),
                "in bulk": lambda: arrow_table(tp, _SQL),
            },
            options.runs,
        )
        rows = _slices(arrow_table(tp, _SQL))
    track = np.ones(len(rows), np.int64)
    _compare(
        f"writing {_ROWS:,} slices of a Perfetto trace",
        {
            "protobuf's objects": lambda: _packets_of_objects(rows),
            "in bulk": lambda: begin_packets(rows, track, Interning()),
        },
        options.runs,
    )
    _compare_json(options.trace, options.runs)


def _table_of_objects(tp: TraceProcessor) -> pa.Table:
    """What the official API offers: objects, read cell by cell."""
    result = tp.query(_SQL)
    names = result.column_names
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in result:
        for name in names:
            columns[name].append(getattr(row, name))
    return pa.table(columns)


def _slices(table: pa.Table) -> pa.RecordBatch:
    """The same rows with the columns that a slice needs; `x` and `share` become annotations."""
    names = pa.array(["kernel"] * len(table))
    for column in ("cat", "colour"):
        table = table.append_column(column, names)
    return table.combine_chunks().to_batches()[0]


def _packets_of_objects(rows: pa.RecordBatch) -> bytes:
    interning, trace = Interning(), Trace()
    for row in rows.to_pylist():
        packet = trace.packet.add(
            timestamp=row["ts"],
            trusted_packet_sequence_id=1,
            sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
        )
        event = packet.track_event
        event.type = TrackEvent.TYPE_SLICE_BEGIN if row["dur"] else TrackEvent.TYPE_INSTANT
        event.track_uuid = 1
        event.category_iids.append(interning.number("event_categories", row["cat"]))
        event.name_iid = interning.number("event_names", row["name"])
        event.correlation_id_str_iid = interning.number("correlation_id_str", row["colour"])
        for name, field in (("x", "int_value"), ("share", "double_value")):
            number = interning.number("debug_annotation_names", name)
            event.debug_annotations.add(name_iid=number, **{field: row[name]})
    return bytes(trace.SerializeToString())


def _compare_json(trace: Path, runs: int) -> None:
    with gzip.open(trace) as file:
        size_mb = file.seek(0, 2) / 1e6
    print(f"parsing {size_mb:.0f} MB of JSON, decompressed on the way")
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in _JSON}
    for _ in range(runs):
        for name, code in _JSON.items():
            command = [sys.executable, "-c", _MEASURED.replace("{code}", code), str(trace)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds, peak_mb = map(float, said.split())
            measured[name].append((seconds, peak_mb))
    for name, found in measured.items():
        memory_mb = statistics.median(peak for _, peak in found)
        print(f"  {name:30}{_spread([s for s, _ in found])} s, {memory_mb:.0f} MB of memory")


def _compare(title: str, ways: dict[str, Callable[[], object]], runs: int) -> None:
    print(title)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, work in ways.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    for name, found in times.items():
        print(f"  {name:30}{_spread(found)} s")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
