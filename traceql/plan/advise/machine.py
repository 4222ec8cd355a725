"""A kind of GPU: its peaks, from the data sheet or measured, and its collectives."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from traceql.database.loading.inputs import write_peaks
from traceql.errors import UnknownGpu
from traceql.plan.limits.collective_time import CollectiveTime, Series, bus_factor
from traceql.sql.execute import create_sources, make_tables
from traceql.util.text import suggestion

_NAMED = "SELECT DISTINCT example, position FROM data_sheet_peak WHERE example IS NOT NULL"
_PEAKS = """
    SELECT dtype, tflops, hbm_gbps, link_gbps, pair_gbps, l2_bytes, memory_bytes
    FROM peak
    WHERE kind = $kind
"""
_STARTUPS = """
    SELECT cost, ranks, MIN(ns) FROM fixed_cost
    WHERE ranks IS NOT NULL AND regexp_matches($device, device)
    GROUP BY cost, ranks
"""
_MEASURED = """
    SELECT op, ranks, bytes, MIN(COALESCE(fastest_ns, kernel_ns, ns)) FROM measured_collective
    WHERE device_name = $device AND op IN ('all_reduce', 'all_gather')
    GROUP BY ALL
"""
_RECEIVED = {"recv": "send"}  # the receiver waits for the data, not the sender

# Start-ups where none is known for the GPU, ns; docs/advise.md says where they come from.
_ASSUMED_NS = {"all_reduce": 15_000.0, "all_gather": 15_000.0, "send": 7_000.0}
_SAME_AS = {"reduce_scatter": "all_gather"}  # the same bytes in the opposite direction
_FAR = 4  # sizes closer than this factor do not determine a bandwidth

Point = tuple[str, int, float, float]  # op, ranks, bytes, ns


@dataclass(frozen=True)
class CollectiveTimes:
    """Durations of collectives without waiting, on one kind of GPU.

    Attributes:
        series: known sizes of each operation and number of ranks.
        startup_ns: of a small operation, where no size is known.
        link_bytes_per_ns: peak of the links of a GPU in one direction.
        pair_bytes_per_ns: peak between two GPUs where each pair has a link; None otherwise.
    """

    series: Mapping[tuple[str, int], Series]
    startup_ns: Mapping[tuple[str, int], float]
    link_bytes_per_ns: float
    pair_bytes_per_ns: float | None

    def __call__(self, op: str, ranks: int, size_bytes: float) -> float:
        if ranks == 1:
            return 0.0
        known = _SAME_AS.get(op, op)
        if series := self.series.get((known, ranks)):
            return self._by_sizes(series, max(size_bytes, 1.0))
        startups = {size: ns for (name, size), ns in self.startup_ns.items() if name == known}
        if startups:  # of that many ranks, else of the nearest number that is known
            nearest = min(startups, key=lambda size: (abs(size - ranks), size))
            return startups[nearest] + self._moving(known, ranks, size_bytes)
        return _ASSUMED_NS[known] + self._moving(known, ranks, size_bytes)

    def _by_sizes(self, one: Series, size_bytes: float) -> float:
        """Beyond sizes close to each other, further bytes move at the peak."""
        smallest, largest = min(one.ns), max(one.ns)
        if smallest <= size_bytes <= largest or largest >= _FAR * smallest:
            return CollectiveTime([one]).expected(one.op, one.ranks, size_bytes).ns
        if size_bytes < smallest:
            return one.ns[smallest]
        return one.ns[largest] + self._moving(one.op, one.ranks, size_bytes - largest)

    def _moving(self, op: str, ranks: int, size_bytes: float) -> float:
        rate = self.link_bytes_per_ns
        if self.pair_bytes_per_ns:
            rate = self.pair_bytes_per_ns * (1 if op == "send" else ranks - 1)
        return size_bytes * bus_factor(op, ranks) / rate


@dataclass(frozen=True)
class Machine:
    """One kind of GPU, and how such GPUs are linked.

    Attributes:
        memory_bytes: size of its memory.
        bytes_per_ns: peak of its memory, reading and writing together.
        flops_per_ns: peak of each type of numbers.
        l2_bytes: size of the last cache before the memory; 0 if unknown.
        is_measured: whether the peaks were measured, with `traceql experiment peaks measure`.
    """

    name: str
    memory_bytes: float
    bytes_per_ns: float
    flops_per_ns: Mapping[str, float]
    l2_bytes: float
    is_measured: bool
    collectives: CollectiveTimes


def machine_named(gpu: str, peaks: Iterable[Path] = ()) -> Machine:
    """The GPU of that name, such as h200.

    Args:
        peaks: files as for `traceql load --peaks`: data sheets as CSV, or a peaks.json.

    Raises:
        UnknownGpu: no list of peaks has it, or not its memory.
        PeaksInvalid: a file cannot be used.
    """
    con = duckdb.connect()
    create_sources(con)
    write_peaks(con, list(peaks))
    make_tables(con, ["data_sheet_peak", "fixed_cost", "measured_collective"])
    listed = con.execute(f"{_NAMED} ORDER BY position").fetchall()
    name = _full_name(gpu, list(dict.fromkeys(example for example, _ in listed)))
    con.execute("INSERT INTO trace (rank, device_name) VALUES (0, ?)", [name])
    make_tables(con, ["peak"])
    sheet = con.execute(_PEAKS, {"kind": "data sheet"}).fetchall()
    measured = con.execute(_PEAKS, {"kind": "measured"}).fetchall()
    if not sheet or None in (sheet[0][2], sheet[0][6]):
        raise UnknownGpu(f"the peaks of {name} lack the memory or its rate; add them with --peaks")
    _, _, hbm, link, pair, l2, size = sheet[0]
    flops = {row[0]: row[1] * 1000 for row in (*sheet, *measured) if row[1]}
    startups = con.execute(_STARTUPS, {"device": name}).fetchall()
    collectives = CollectiveTimes(
        series_of(con.execute(_MEASURED, {"device": name}).fetchall()),
        {(op, ranks): ns for op, ranks, ns in startups},
        link or 32.0,  # PCIe 4.0 x16 where no link is listed
        pair,
    )
    rate = next((row[2] for row in measured if row[2]), hbm)
    size = next((row[6] for row in measured if row[6]), size)
    return Machine(name, size, rate, flops, l2 or 0, bool(measured), collectives)


def with_points(machine: Machine, points: Iterable[Point]) -> Machine:
    """The machine with recorded times of operations that were not measured."""
    known = machine.collectives
    added = {**series_of(points), **known.series}
    return replace(machine, collectives=replace(known, series=added))


def series_of(points: Iterable[Point]) -> dict[tuple[str, int], Series]:
    """The points of each operation and number of ranks, of the fastest algorithm at each size."""
    found: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for op, ranks, size_bytes, ns in points:
        found[_RECEIVED.get(op, op), ranks].append((round(size_bytes), ns))
    return {key: Series.of_points(*key, "fastest", "kernel", own) for key, own in found.items()}


def _full_name(gpu: str, names: list[str]) -> str:
    """The listed name that ends with the given one, else the first that contains it."""
    name = gpu.lower()
    ending = [n for n in names if n.lower() == name or n.lower().endswith(f" {name}")]
    if matches := ending or [n for n in names if name in n.lower()]:
        return matches[0]
    short = {n.split(" ", 1)[-1].lower(): n for n in names}
    hint = suggestion(name, short) or "add its peaks with --peaks"
    raise UnknownGpu(f"no peaks of a GPU '{gpu}'; {hint}")
