"""The JSON that the trace processor is fed instead of the file, so that it loses no event.

Every process, and every lane of every thread, gets a new number. Otherwise the trace processor
would take thread 0 for the main thread of its process, and merge negative ids. Times are rebased,
because the trace processor reads them as doubles. For loading, each nanosecond is fed as a
microsecond, a whole number of at most 53 bits. The field `tts` (thread time, which these traces do
not have) carries the index of the event, by which the result is joined to the parsed events.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.flows import BoundEnds, Flows, bound_ends
from traceql.readers.timeline import Timeline
from traceql.readers.tracks import Track

Int64s = npt.NDArray[np.int64]
_LINES = 1 << 14  # lines made at once, few enough to stay in the CPU's cache
SCALE = 1000  # the trace processor returns the times it was fed times this
_FIRST_TID = 10_000  # above all pids, so that no thread is taken for the main thread of its process
_FIRST_CARRIED = 1 << 33  # above the numbers that it gives to flows that are fed as events
_EXACT_SPAN_NS = 2**53  # doubles hold all whole numbers up to this one


@dataclass(frozen=True)
class FedTimes:
    """Maps the times of the file to the times that are fed, keeping their order."""

    base_ns: int
    instants: Int64s | None = None  # all times, sorted, if positions among them are fed instead

    def __call__(self, ts: Int64s) -> Int64s:
        if self.instants is None:
            return ts - self.base_ns
        return np.searchsorted(self.instants, ts)


def fed_times(slices: Timeline, flows: Flows) -> FedTimes:
    """Times since the first event; in a trace of more than 104 days, positions in their order."""
    every = np.concatenate((slices.ts, slices.ts + slices.fed_dur, flows.ends.ts))
    if not len(every):
        return FedTimes(0)
    first, last = int(every.min()), int(every.max())
    if last - first < _EXACT_SPAN_NS:
        return FedTimes(first)
    return FedTimes(first, np.unique(every))


@dataclass(frozen=True)
class Ids:
    """The pid and tid that are fed for each track and lane."""

    pid_of_track: Int64s
    lanes: int

    def pid(self, timeline: Timeline) -> Int64s:
        return self.pid_of_track[timeline.track]

    def tid(self, timeline: Timeline) -> Int64s:
        return _FIRST_TID + timeline.track * self.lanes + timeline.lane


@dataclass(frozen=True)
class Described:
    """What slices are, for PerfettoSQL: their columns `cat`, `name` and `args` (JSON)."""

    cat: pa.DictionaryArray
    name: pa.DictionaryArray
    args: pa.Array


def dense_ids(tracks: Sequence[Track], slices: Timeline) -> Ids:
    numbers: dict[object, int] = {}
    pids = [numbers.setdefault(track.pid, len(numbers) + 1) for track in tracks]
    return Ids(np.array(pids, np.int64), int(slices.lane.max(initial=0)) + 1)


def nesting_feed(slices: Timeline, flows: Flows, ids: Ids, to_fed: FedTimes) -> Iterator[bytes]:
    """Slices without names and arguments, and flows: all that is needed to find parents.

    The events are in the order of time, so that the trace processor need not sort them. They have
    no pid, because every tid is unique.
    """
    yield b'{"traceEvents":[{"ph":"M","name":"","pid":0}'
    ts, flow_ts = to_fed(slices.ts), to_fed(flows.ends.ts)
    dur = to_fed(slices.ts + slices.fed_dur) - ts
    tid, flow_tid = ids.tid(slices), ids.tid(flows.ends)
    carried = bound_ends(
        flows,
        place=tid - _FIRST_TID,
        ts=ts,
        dur=dur,
        end_place=flow_tid - _FIRST_TID,
        end_ts=flow_ts,
    )
    carrying = np.full(len(ts), -1)  # the flow end that each slice carries
    carrying[carried.slice[carried.slice >= 0]] = np.flatnonzero(carried.slice >= 0)
    alone = np.flatnonzero(carried.slice < 0)
    kind, number = _flow_fields(flows, _nameless_kinds(flows))

    def slice_lines(at: Int64s) -> pa.Array:
        flow = _carried_flow(carried, flows.number, carrying[at])
        places = (',{"ph":"X","tid":', tid[at], ',"ts":', ts[at], ',"dur":', dur[at])
        return _lines(*places, ',"tts":', at, flow, "}")

    def flow_lines(at: Int64s) -> pa.Array:
        places = (',"tid":', flow_tid[at], ',"ts":', flow_ts[at], "}")
        return _lines(",{", kind.take(pa.array(at)), ',"id":', number[at], *places)

    order = np.argsort(np.concatenate((ts, flow_ts[alone])), kind="stable")
    for first in range(0, len(order), _LINES):
        part = order[first : first + _LINES]
        is_slice = part < len(ts)
        lines = slice_lines(part[is_slice])
        if not is_slice.all():
            at = alone[part[~is_slice] - len(ts)]
            of_both = np.argsort(np.argsort(~is_slice, kind="stable"))
            lines = pa.concat_arrays([lines, flow_lines(at)]).take(pa.array(of_both))
        yield _joined_bytes(lines)
    yield b"]}"


def described_feed(
    slices: Timeline,
    columns: Described,
    flows: Flows,
    tracks: Sequence[Track],
    ids: Ids,
    to_fed: FedTimes,
) -> Iterator[bytes]:
    """Slices with names, categories, arguments and real times, and flows, for PerfettoSQL."""
    yield b'{"traceEvents":[{"ph":"M","name":"","pid":0}'
    yield "".join(_name_lines(tracks, ids)).encode()
    ts = to_fed(slices.ts)
    slice_lines = _lines(
        *(',{"ph":"X","pid":', ids.pid(slices), ',"tid":', ids.tid(slices)),
        *(',"ts":', *_us(ts), ',"dur":', *_us(slices.fed_dur)),
        *(',"name":', _all_quoted(columns.name), ',"cat":', _all_quoted(columns.cat)),
        *(',"args":', columns.args.storage.fill_null("{}"), "}"),
    )
    yield _joined_bytes(slice_lines)
    kind, number = _flow_fields(flows, _named_kinds(flows))
    flow_lines = _lines(
        *(",{", kind, ',"id":', number, ',"pid":', ids.pid(flows.ends)),
        *(',"tid":', ids.tid(flows.ends), ',"ts":', *_us(to_fed(flows.ends.ts)), "}"),
    )
    yield _joined_bytes(flow_lines)
    yield b"]}"


def _lines(*parts: str | Int64s | pa.Array) -> pa.Array:
    """One line of JSON per event, joined from constants, numbers and strings.

    The JSON is put together column by column in Arrow: an encoder would need an object per event.
    """
    texts = [
        pc.cast(pa.array(part), pa.large_string())
        if isinstance(part, np.ndarray)
        else pa.scalar(part, pa.large_string())
        if isinstance(part, str)
        else part
        for part in parts
    ]
    lines = pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))
    return lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines


def _joined_bytes(lines: pa.Array) -> bytes:
    """All lines as one text; Arrow has them in one buffer already."""
    return lines.buffers()[2].to_pybytes() if len(lines) else b""


def _us(ns: Int64s) -> tuple[Int64s, str, pa.Array]:
    """Nanoseconds as the parts of decimal microseconds: 12345 becomes 12, a dot and 345."""
    fraction = pc.utf8_lpad(pc.cast(pa.array(ns % 1000), pa.large_string()), width=3, padding="0")
    return ns // 1000, ".", fraction


def _nameless_kinds(flows: Flows) -> Iterator[str]:
    return (f'"ph":"{phase}"{_binding(bind)}' for phase, _, _, bind in flows.kinds)


def _named_kinds(flows: Flows) -> Iterator[str]:
    for phase, name, cat, bind in flows.kinds:
        yield f'"ph":"{phase}","name":{_quoted(name)},"cat":{_quoted(cat)}{_binding(bind)}'


def _binding(bind: object) -> str:
    return ',"bp":"e"' if bind == "e" else ""


def _flow_fields(flows: Flows, kinds: Iterable[str]) -> tuple[pa.Array, Int64s]:
    """For each end its text from `kinds`, and the number of its flow."""
    return _large_strings(list(kinds)).take(pa.array(flows.kind)), flows.number


def _carried_flow(carried: BoundEnds, number: Int64s, ends: Int64s) -> pa.Array:
    """For each slice the fields of the flow end that it carries, if any.

    Args:
        ends: the end that each slice carries; -1 if it carries none.
    """
    some = np.flatnonzero(ends >= 0)
    direction = _large_strings([',"flow_in":true', ',"flow_out":true'])
    texts = _lines(
        *(',"bind_id":', number[ends[some]] + _FIRST_CARRIED),
        direction.take(pa.array(carried.begins[ends[some]].astype(np.int64))),
    )
    place = np.full(len(ends), len(some))
    place[some] = np.arange(len(some))
    return pa.concat_arrays([texts, _large_strings([""])]).take(pa.array(place))


def _large_strings(values: Sequence[str | bytes]) -> pa.Array:
    return pa.array(values, pa.large_string())


def _name_lines(tracks: Sequence[Track], ids: Ids) -> Iterator[str]:
    """Lines that name processes and threads; every lane has the name of its thread."""
    for number, track in enumerate(tracks):
        pid = int(ids.pid_of_track[number])
        yield _name_line("process_name", pid, pid, track.process_name or track.pid)
        for lane in range(ids.lanes):
            tid = _FIRST_TID + number * ids.lanes + lane
            yield _name_line("thread_name", pid, tid, track.thread_name or track.tid)


def _name_line(kind: str, pid: int, tid: int, name: object) -> str:
    return (
        f',{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"args":{{"name":{_quoted(name)}}}}}'
    )


def _all_quoted(texts: pa.DictionaryArray) -> pa.Array:
    quoted = [_quoted(text) for text in texts.dictionary.to_pylist()]
    return _large_strings(quoted).take(texts.indices)


def _quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)
