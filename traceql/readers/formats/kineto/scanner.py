"""Runs scan.c, compiled to WebAssembly, on the text of a trace."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.compiled import Instance, new_instance
from traceql.readers.dialects.pytorch.vocabulary import Argument
from traceql.readers.formats.kineto.times import Int64s
from traceql.readers.tables import ACTIVITY

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Coded:
    """A column of texts and other values, as indexes in a list that grows with the file."""

    codes: Int64s
    values: Sequence[Any]


@dataclass(frozen=True)
class ScannedSizes:
    """An argument that is a list of at most three numbers: a grid or a block."""

    values: npt.NDArray[np.int32]  # three numbers for each event
    lengths: Int64s  # the number of valid ones
    present: Bools  # whether the event has the argument


@dataclass(frozen=True)
class ScannedSlices:
    """Complete events.

    Attributes:
        ts: start in the file's own time, ns.
        dur: ns; 0 if the file has none.
        dur_texts: the durations as text of the file, with a comma after each.
        args: the concatenated arguments of all events, as JSON objects.
        args_sizes: the bytes of `args` of each event; 0 if it has no arguments.
        numbers: integer arguments, and which events have them.
        sizes: arguments that are lists.
    """

    name: Coded
    cat: Coded
    track: Coded
    ts: Int64s
    dur: Int64s
    dur_texts: bytes
    args: bytes
    args_sizes: Int64s
    numbers: Mapping[Argument, tuple[Int64s, Bools]]
    sizes: Mapping[Argument, ScannedSizes]

    def __len__(self) -> int:
        return len(self.ts)


@dataclass(frozen=True)
class ScannedEnds:
    """Ends of flows; `ts` is in the file's own time, ns, and `id` its text in the file."""

    phase: Coded
    name: Coded
    cat: Coded
    binding: Coded
    place: Coded
    ts: Int64s
    id: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.ts)

    def phases(self) -> Counter[str]:
        """The number of ends of each phase."""
        codes, counts = np.unique(self.phase.codes, return_counts=True)
        letters = (self.phase.values[code] for code in codes.tolist())
        return Counter(dict(zip(letters, counts.tolist(), strict=True)))


@dataclass(frozen=True)
class Scanned:
    """The events of a piece of a file.

    Attributes:
        tracks: process and thread of all tracks of slices and instants so far, in file order.
        others: the texts of the events that are neither slices nor ends of flows.
        consumed: the size of all events, bytes.
    """

    slices: ScannedSlices
    ends: ScannedEnds
    tracks: Sequence[tuple[Any, Any]]
    others: Sequence[bytes]
    consumed: int

    def __len__(self) -> int:
        return len(self.slices) + len(self.ends) + len(self.others)


def number_column(slices: ScannedSlices, argument: Argument, rows: Int64s | slice) -> pa.Array:
    """An argument of some slices; NULL if it is missing."""
    values, present = slices.numbers[argument]
    return pa.array(values[rows], mask=~present[rows])


def scanned_activities(slices: ScannedSlices, rows: Int64s, first: int) -> pa.Table:
    """One row per slice in `rows`; `first` is the index in the file of the first slice."""
    columns = [
        pa.array(first + rows),
        number_column(slices, Argument.DEVICE, rows),
        number_column(slices, Argument.STREAM, rows),
        number_column(slices, Argument.BYTES, rows),
        _lists(slices.sizes[Argument.GRID], rows),
        _lists(slices.sizes[Argument.BLOCK], rows),
        number_column(slices, Argument.GRAPH_NODE_ID, rows),
    ]
    return pa.table(columns, schema=ACTIVITY)


def _lists(sizes: ScannedSizes, rows: Int64s) -> pa.Array:
    lengths, values = sizes.lengths[rows], sizes.values[rows]
    counts = np.arange(values.shape[1]) < lengths[:, None]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(values[counts]), mask=pa.array(~sizes.present[rows])
    )


ROOM_BYTES = 1 << 21  # of the text in one scan
_SCALAR: msgspec.json.Decoder[str | int | float | bool | None] = msgspec.json.Decoder(
    str | int | float | bool | None
)
# The arguments of scan.c, in its order.
NUMBERS = (
    *(Argument.EXTERNAL_ID, Argument.CORRELATION, Argument.DEVICE, Argument.STREAM),
    *(Argument.BYTES, Argument.GRAPH_NODE_ID),
)
SIZES = (Argument.GRID, Argument.BLOCK)
# The results of scan.c, in its order: numbers, and addresses of columns of slices, ends and others.
_RESULTS = (
    *("consumed", "slices", "ends", "others", "args_size", "durs_size", "ids_size"),
    *("args", "durs", "ids", "s_name", "s_cat", "s_track", "s_args", "s_present"),
    *("s_ts", "s_dur", "s_argument", "s_grid", "s_block", "s_grid_size"),
    *("s_block_size", "e_phase", "e_name", "e_cat", "e_binding", "e_place", "e_id", "e_ts"),
    *("o_at", "o_size"),
)
_TABLES = ("names", "cats", "tracks", "places", "bindings")
_COLUMNS_OF_TABLE = 3  # count, texts, sizes
_LETTERS = [chr(code) for code in range(1 << 7)]
_EVENTS = 1 << 14  # the rows of a column in scan.c
_END = 1  # the status of its scan at the end of the list of events


class Scanner:
    """Scans one file, piece by piece; names, categories and tracks keep their numbers.

    Attributes:
        has_ended: whether the list of events has ended.
    """

    def __init__(self, compiled: Instance) -> None:
        self.has_ended = False
        self._compiled = compiled
        self._text = compiled.call("start", ROOM_BYTES)
        self._values: dict[str, list[Any]] = {name: [] for name in _TABLES}

    def scan(self, text: bytearray) -> Scanned:
        """The events at the start of a text, up to one that is truncated or unusual."""
        piece = text[:ROOM_BYTES]
        self._compiled.memory()[self._text : self._text + len(piece)] = np.frombuffer(
            piece, np.uint8
        )
        self.has_ended = self._compiled.call("scan", len(piece)) == _END
        at = self._compiled.call("results")
        found = self._compiled.numbers(at, len(_RESULTS) + len(_TABLES) * _COLUMNS_OF_TABLE)
        memory = self._compiled.memory()
        results = _Results(memory, dict(zip(_RESULTS, found, strict=False)))
        for number, table in enumerate(_TABLES):
            begin = len(_RESULTS) + number * _COLUMNS_OF_TABLE
            self._learn(memory, table, *found[begin : begin + _COLUMNS_OF_TABLE])
        others = zip(
            results.column("o_at", np.uint32, "others").tolist(),
            results.column("o_size", np.uint32, "others").tolist(),
            strict=True,
        )
        return Scanned(
            self._slices(results),
            self._ends(results),
            self._values["tracks"],
            [bytes(piece[begin : begin + size]) for begin, size in others],
            results.number["consumed"],
        )

    def _learn(
        self, memory: npt.NDArray[np.uint8], table: str, count: int, texts: int, sizes: int
    ) -> None:
        """Decodes the new values of a table."""
        values = self._values[table]
        known = len(values)
        if count == known:
            return
        begins = memory[texts : texts + 4 * count].view(np.uint32)[known:].tolist()
        lengths = memory[sizes : sizes + 4 * count].view(np.uint32)[known:].tolist()
        decode = _pair if table in ("tracks", "places") else _value
        absent = None if table == "bindings" else ""
        for begin, length in zip(begins, lengths, strict=True):
            values.append(decode(memory[begin : begin + length].tobytes(), absent))

    def _coded(self, results: "_Results", column: str, table: str, rows: str) -> Coded:
        codes = results.column(column, np.uint32, rows).astype(np.int64)
        return Coded(codes, self._values[table])

    def _slices(self, results: "_Results") -> ScannedSlices:
        present = results.column("s_present", np.uint32, "slices")
        has = [(present >> bit & 1).astype(bool) for bit in range(len(NUMBERS) + len(SIZES))]
        numbers = {
            argument: (
                results.column("s_argument", np.int64, "slices", skipped=bit * _EVENTS),
                has[bit],
            )
            for bit, argument in enumerate(NUMBERS)
        }
        sizes = {
            argument: ScannedSizes(
                results.column(f"s_{argument}", np.int32, "slices", width=3).reshape(-1, 3),
                results.column(f"s_{argument}_size", np.uint8, "slices").astype(np.int64),
                has[bit],
            )
            for bit, argument in enumerate(SIZES, len(NUMBERS))
        }
        return ScannedSlices(
            name=self._coded(results, "s_name", "names", "slices"),
            cat=self._coded(results, "s_cat", "cats", "slices"),
            track=self._coded(results, "s_track", "tracks", "slices"),
            ts=results.column("s_ts", np.int64, "slices"),
            dur=results.column("s_dur", np.int64, "slices"),
            dur_texts=results.text("durs"),
            args=results.text("args"),
            args_sizes=results.column("s_args", np.uint32, "slices").astype(np.int64),
            numbers=numbers,
            sizes=sizes,
        )

    def _ends(self, results: "_Results") -> ScannedEnds:
        ids = results.text("ids")
        stops = np.cumsum(results.column("e_id", np.uint32, "ends").astype(np.int64)).tolist()
        return ScannedEnds(
            phase=Coded(results.column("e_phase", np.uint8, "ends").astype(np.int64), _LETTERS),
            name=self._coded(results, "e_name", "names", "ends"),
            cat=self._coded(results, "e_cat", "cats", "ends"),
            binding=self._coded(results, "e_binding", "bindings", "ends"),
            place=self._coded(results, "e_place", "places", "ends"),
            ts=results.column("e_ts", np.int64, "ends"),
            id=[ids[a:b] for a, b in zip([0, *stops], stops, strict=False)],
        )


class _Results:
    """The results of a scan in memory, by name."""

    def __init__(self, memory: npt.NDArray[np.uint8], number: dict[str, int]) -> None:
        self._memory = memory
        self.number = number

    def column(
        self, name: str, kind: Any, rows: str, *, width: int = 1, skipped: int = 0
    ) -> npt.NDArray[Any]:
        """A copy of a column."""
        size = np.dtype(kind).itemsize
        begin = self.number[name] + skipped * size
        end = begin + self.number[rows] * width * size
        copied: npt.NDArray[Any] = self._memory[begin:end].view(kind).copy()
        return copied

    def text(self, name: str) -> bytes:
        """A copy of concatenated texts."""
        begin = self.number[name]
        return self._memory[begin : begin + self.number[f"{name}_size"]].tobytes()


def new_scanner() -> Scanner | None:
    """A scanner for a file; None if this machine cannot run it."""
    compiled = new_instance("scan")
    return Scanner(compiled) if compiled else None


def _value(text: bytes, absent: Any) -> Any:
    return _SCALAR.decode(text) if text else absent


def _pair(text: bytes, _absent: Any) -> tuple[Any, Any]:
    pid, _, tid = text.partition(b"\0")
    return _value(pid, None), _value(tid, None)
