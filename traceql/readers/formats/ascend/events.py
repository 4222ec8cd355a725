"""The events of a trace, each with its category: what it is, by its track and its arguments."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.coded import DistinctValues
from traceql.readers.dialects.ascend.vocabulary import (
    IS_ANNOTATION,
    IS_COMPUTE_TASK,
    IS_PART_KERNEL,
    Argument,
    Category,
)
from traceql.readers.formats.ascend.counters import Counters
from traceql.readers.formats.kineto.kineto_json import Event
from traceql.readers.formats.kineto.read import KinetoEvents, kineto_events
from traceql.readers.tracks import Track

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kept = Callable[[Iterable[list[Event]]], Iterator[list[Event]]]

HARDWARE, PYTHON, CANN, OVERLAP = "Ascend Hardware", "Python", "CANN", "Overlap Analysis"
_COMMUNICATION = ("HCCL", "Communication")
_LEVELS = {
    "acl": Category.ACL,
    "model": Category.MODEL,
    "node": Category.NODE,
    "runtime": Category.RUNTIME,
    "hccl": Category.COMMUNICATION_CALL,
    "communication": Category.COMMUNICATION_CALL,
    "mstx": Category.MSTX,
}
_OF_PYTHON = {category.value: category for category in Category}
_COMPUTE = re.compile(IS_COMPUTE_TASK)
_EVENT = re.compile(r"EVENT_(RECORD|WAIT)(_SQE)?|(MEM|CAPTURE)_(WAIT|WRITE|RECORD)\w*")
_UNKNOWN_TYPE = "Other"  # of old traces, which tell AI_CPU from the rest alone
_COPY = "MEMCPY_ASYNC"
_IS_ANNOTATION = re.compile(IS_ANNOTATION)
_PART_KERNEL = re.compile(IS_PART_KERNEL)


class _Arguments(msgspec.Struct, gc=False):
    """The arguments that tell what an event is; None if missing or of another type."""

    task_type: str | None = msgspec.field(name=Argument.TASK_TYPE.value, default=None)
    level: str | None = msgspec.field(name=Argument.LEVEL.value, default=None)
    connection: int | None = msgspec.field(name=Argument.CONNECTION.value, default=None)
    model: int | None = msgspec.field(name=Argument.MODEL.value, default=None)
    stream: int | None = msgspec.field(name=Argument.STREAM.value, default=None)
    old_stream: int | None = msgspec.field(name=Argument.OLD_STREAM.value, default=None)
    ranks: int | None = msgspec.field(name=Argument.RANK_SIZE.value, default=None)
    peer: int | None = msgspec.field(name=Argument.DESTINATION_RANK.value, default=None)
    size: float | None = msgspec.field(name=Argument.SIZE.value, default=None)


_DECODER = msgspec.json.Decoder(_Arguments)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOTHING = _Arguments()


@dataclass(frozen=True)
class AscendEvents:
    """The events of a file.

    Attributes:
        parsed: them as parsed, with exact times and tracks.
        counters: the samples of counters.
        tracks: all tracks, those of counters too.
    """

    parsed: KinetoEvents
    counters: Counters
    tracks: list[Track]

    def __len__(self) -> int:
        return len(self.parsed.slices)

    @cached_property
    def names(self) -> Sequence[str]:
        """The name of each event."""
        name = self.parsed.columns.slices.name
        texts = [str(text or "") for text in name.dictionary.to_pylist()]
        return [texts[code] for code in name.indices.to_pylist()]

    @cached_property
    def process(self) -> Sequence[str]:
        """The name of the process of each track."""
        return [str(track.process_name or "") for track in self.tracks]

    def on(self, *processes: str) -> Bools:
        """Whether each event is on a track of one of these processes."""
        chosen = np.array([process in processes for process in self.process], np.bool_)
        return chosen[self.parsed.slices.track]

    @cached_property
    def arguments(self) -> Sequence[_Arguments]:
        """The arguments of each event but those of Python, which have none of interest."""
        texts = self.parsed.columns.slices.args.storage
        at = np.flatnonzero(~self.on(PYTHON, OVERLAP))
        found = [_NOTHING] * len(self)
        for index, text in zip(at.tolist(), texts.take(pa.array(at)).to_pylist(), strict=True):
            found[index] = _decoded(text)
        return found

    @cached_property
    def category(self) -> pa.DictionaryArray:
        """The category of each event."""
        given = self.parsed.columns.slices.cat
        cats = [str(cat or "") for cat in given.dictionary.to_pylist()]
        codes, found = DistinctValues(), []
        rows = zip(
            self.parsed.slices.track.tolist(),
            given.indices.to_pylist(),
            self.names,
            self.arguments,
            strict=True,
        )
        for track, cat, name, arguments in rows:
            told = arguments.task_type or arguments.level or ""
            found.append(codes[category_of(self.tracks[track], cats[cat], name, told)])
        code = np.array(found, np.int64)
        code[self.carried_out] = codes[Category.TASK]
        values = pa.array([category.value for category in codes], pa.large_string())
        return pa.DictionaryArray.from_arrays(pa.array(code, pa.int32()), values)

    def of(self, *categories: Category) -> Bools:
        """Whether each event is of one of these categories."""
        values = self.category.dictionary.to_pylist()
        chosen = np.array([value in categories for value in values], np.bool_)
        if not len(chosen):
            return np.zeros(0, np.bool_)
        matches: Bools = chosen[self.category.indices.to_numpy()]
        return matches

    @cached_property
    def connection(self) -> Int64s:
        """The number that a call and its tasks share; -1 if an event has none."""
        found = [-1 if a.connection is None else a.connection for a in self.arguments]
        return np.array([c if 0 <= c < 2**63 else -1 for c in found], np.int64)

    def bytes(self, index: int) -> int | None:
        """The bytes that a copy moved; None if the event tells none, or a size that is none."""
        size = self.arguments[index].size
        return int(size) if size is not None and 0 <= size < 2**63 else None

    @cached_property
    def carried_out(self) -> Int64s:
        """Kernels that are only how an operation of communication, which has a row, was done."""
        slices = self.parsed.slices
        groups = [n for n, track in enumerate(self.tracks) if _is_group(track)]
        whole = np.flatnonzero(self.on(*_COMMUNICATION) & np.isin(slices.track, groups))
        named = [bool(_PART_KERNEL.search(name)) for name in self.names]
        parts = np.flatnonzero(np.array(named, np.bool_) & self.on(HARDWARE))
        if not len(whole) or not len(parts):
            return np.empty(0, np.int64)
        order = whole[np.argsort(slices.ts[whole], kind="stable")]
        ends = np.maximum.accumulate(slices.ts[order] + slices.dur[order])
        before = np.searchsorted(slices.ts[order], slices.ts[parts], side="right") - 1
        inside = (before >= 0) & (slices.ts[parts] < ends[np.maximum(before, 0)])
        return parts[inside]


def ascend_events(path: Path, *, kept: Kept = iter) -> AscendEvents:
    """Parses a file.

    Args:
        kept: leaves out events that are not to be read.

    Raises:
        TraceCorrupt: the file is damaged, has no events, or events without a time after 1970.
    """
    counters = Counters()
    parsed = kineto_events(path, kept=lambda batches: counters.kept(kept(batches)))
    if not len(parsed.slices):
        raise TraceCorrupt(
            f"{path}: has no events: nothing ran while it was recorded, or it was not analysed to "
            "the end"
        )
    _require_times(path, parsed.slices.ts, parsed.instants.ts, counters.ts)
    return AscendEvents(parsed, counters, counters.with_tracks(parsed.tracks))


def _require_times(path: Path, *starts: Int64s) -> None:
    ts = np.concatenate(starts)
    if odd := int((ts <= 0).sum()):
        raise TraceCorrupt(
            f"{path}: {odd:,} of {len(ts):,} events have a time that is not after 1970; the file "
            "is damaged: analyse the recording again with torch_npu.profiler.profiler.analyse"
        )


def category_of(track: Track, cat: str, name: str, told: str) -> Category:
    """The category of an event.

    Args:
        cat: its category in the file; empty if it has none.
        told: the type of the task, or the level of the call; empty if it has none.
    """
    process = str(track.process_name or "")
    if process == HARDWARE:
        return _of_task(told, name)
    if process == CANN:
        return _LEVELS.get(told.lower(), Category.CALL)
    if process in _COMMUNICATION:
        is_whole = _is_group(track) or (name.startswith("hcom_") and not _is_plane(track))
        return Category.COMMUNICATION if is_whole else Category.PLANE
    if process == OVERLAP:
        return Category.OVERLAP
    if cat == Category.OPERATOR and _IS_ANNOTATION.search(name):
        return Category.ANNOTATION
    return _OF_PYTHON.get(cat, Category.OTHER)


def _is_group(track: Track) -> bool:
    """Whether a track has whole operations of communication, not their parts."""
    name = str(track.thread_name or "")
    return name.startswith("Group") or name.endswith("Communication")


def _is_plane(track: Track) -> bool:
    return str(track.thread_name or "").startswith("Plane")


def _of_task(task_type: str, name: str) -> Category:
    """The category of a row of Ascend Hardware."""
    if name == _COPY:
        return Category.MEMCPY
    if _COMPUTE.fullmatch(task_type) or task_type == _UNKNOWN_TYPE:
        return Category.KERNEL
    if _EVENT.fullmatch(task_type) or _EVENT.fullmatch(name):
        return Category.EVENT
    return Category.TASK


def _decoded(text: str | None) -> _Arguments:
    """Arguments; if one is of a wrong type, each on its own."""
    if not text:
        return _NOTHING
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        pass
    try:
        given = _OBJECT.decode(text)
    except msgspec.DecodeError:
        return _NOTHING
    found = {}
    for field in msgspec.structs.fields(_Arguments):
        if field.encode_name in given:
            try:
                found[field.name] = msgspec.json.decode(
                    given[field.encode_name], type=field.type, strict=False
                )
            except msgspec.DecodeError:
                continue
    return _Arguments(**found)
