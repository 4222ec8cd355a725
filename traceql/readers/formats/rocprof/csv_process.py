"""The events of one process in CSV files of rocprofv3."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.dialects.rocprof.vocabulary import COPIES, Argument, Category
from traceql.readers.formats.rocprof.columns import event_table, json_text, mark_table, sample_table
from traceql.readers.formats.rocprof.csv_numbers import address_of, decimal_of, number_of
from traceql.readers.formats.rocprof.csv_table import TIMES, CsvTable
from traceql.readers.formats.rocprof.csv_values import arguments, integers, listed, texts, usual
from traceql.readers.formats.rocprof.recording import (
    COUNTERS_WITHOUT_TIMES,
    EVENT,
    MEMORY,
    SAMPLE,
    Agent,
    Counted,
    Process,
    copied_by,
    is_backward,
)

_DIGITS = re.compile(r"\d+")
_MARKERS = "marker_"
_VALUE = "counter_value"
_NO_VALUE = {"", "n/a", "na", "nan", "null", "none"}
_Sample: TypeAlias = tuple[str | None, str | None, int | None]  # counter, agent, time


class CsvProcess:
    """Reads the files of one process.

    Args:
        tables: the files, by kind.
        agents: the processors, by how the files call them; None if no file lists them.
    """

    def __init__(self, tables: Mapping[str, CsvTable], agents: Mapping[str, Agent] | None) -> None:
        self._tables, self._agents = tables, agents
        self._without_times = 0
        self._backward = 0
        self._unread: Counter[str] = Counter()
        self._not_loaded: Counter[str] = Counter()
        self._counted: Counter[tuple[str, bool, int | None]] = Counter()
        self._counted_ns: Counter[tuple[str, bool, int | None]] = Counter()
        self._marks: list[pa.Table] = []
        self._marks_counted = 0
        self._samples: list[pa.Table] = []
        self._samples_counted = 0
        self._pids: Counter[int] = Counter()

    def process(self, pid: int | None) -> Process:
        """Everything of the process.

        Args:
            pid: its id according to the files' names, where no file has it.
        """
        events = [self._events(kind, table) for kind, table in self._tables.items()]
        if self._pids:
            pid = self._pids.most_common(1)[0][0]
        return Process(
            pid,
            None,
            dict(enumerate((self._agents or {}).values())),
            pa.concat_tables([EVENT.empty_table(), *events]),
            pa.concat_tables([mark_table(0), *self._marks]),
            pa.concat_tables([sample_table(0), *self._samples]),
            [
                Counted(*key, events=number, dur=self._counted_ns[key])
                for key, number in self._counted.items()
            ],
            self._marks_counted,
            self._samples_counted,
            self._without_times,
            self._backward,
            dict(+self._unread),
            dict(self._not_loaded),
        )

    def _events(self, kind: str, table: CsvTable) -> pa.Table:
        """The events of a file, by what its columns are.

        Raises:
            TraceCorrupt: its rows have no times, and are no counters.
        """
        timed, without_times, backward = table.timed()
        self._without_times += without_times
        self._backward += backward
        if timed.unread:
            self._unread[f"rows of {table.path.name}"] = timed.unread
        self._note_pid(table)
        if timed.has("counter_name"):
            return self._counters(timed)
        if not timed.has(*TIMES):
            raise table.without_column(TIMES[0])
        if timed.has("kernel_name", "agent_id"):
            return self._kernels(timed)
        if timed.has("direction"):
            return self._copies(timed)
        if timed.has("domain", "function"):
            return self._calls(timed)
        if timed.has("kind", "operation"):
            return self._allocations(timed)
        self._unread[f"rows of {table.path.name} ({kind})"] += len(timed)
        return event_table(0)

    def _note_pid(self, table: CsvTable) -> None:
        if (pids := table.integer("process_id")) is not None:
            self._pids.update(pids.drop_null().to_pylist())

    def _kernels(self, table: CsvTable) -> pa.Table:
        cat = Category.KERNEL.value
        for agent, start, end in table.rows("agent_id", *TIMES):
            self._count((cat, True, self._device(agent)), start, end)
        return self._kernel_table(table)

    def _kernel_table(self, table: CsvTable) -> pa.Table:
        sizes = {
            f"{what}_{axis}": table.integer(f"{word}_size_{axis}")
            for what, word in (("grid", "grid"), ("block", "workgroup"))
            for axis in "xyz"
        }
        return event_table(
            len(table),
            **usual(table),
            **sizes,
            cat=Category.KERNEL.value,
            name=table.text("kernel_name"),
            on_gpu=1,
            device=[self._device(agent) for agent in texts(table, "agent_id")],
            stream=table.integer("stream_id"),
            queue=table.integer("queue_id"),
            dispatch=table.integer("dispatch_id"),
            args=arguments(table),
        )

    def _copies(self, table: CsvTable) -> pa.Table:
        ends = ("direction", "source_agent_id", "destination_agent_id")
        for direction, source, target, start, end in table.rows(*ends, *TIMES):
            place = self._copied_by(direction, source, target)
            self._count((Category.COPY.value, True, place), start, end)
        told = [texts(table, name) for name in ends]
        return event_table(
            len(table),
            **usual(table),
            cat=Category.COPY.value,
            name=[COPIES.get(direction or "", direction) for direction in told[0]],
            on_gpu=1,
            device=[self._copied_by(*row) for row in zip(*told, strict=True)],
            stream=table.integer("stream_id"),
            bytes=table.integer("copy_bytes"),
            args=[
                json_text({"src_agent_id": source, "dst_agent_id": target})
                for _, source, target in zip(*told, strict=True)
            ],
        )

    def _copied_by(
        self, direction: str | None, source: str | None, target: str | None
    ) -> int | None:
        """The GPU to which a copy belongs. Without a list of agents, its direction tells CPUs."""
        told = direction or ""
        return copied_by(
            None if told.endswith("_TO_HOST") else self._device(target),
            None if "HOST_TO_" in told else self._device(source),
        )

    def _calls(self, table: CsvTable) -> pa.Table:
        """Calls and ranges. Marks, which have no duration, are put aside."""
        for domain, thread, start, end in table.rows("domain", "thread_id", *TIMES):
            if domain.lower().startswith(_MARKERS) and start == end:
                self._marks_counted += _is_loaded(start, end)
            else:
                self._count((domain, False, number_of(thread)), start, end)
        columns = usual(table) | {"cat": table.text("domain"), "name": table.text("function")}
        found = event_table(len(table), **columns, on_gpu=0)
        is_mark = pc.and_(
            pc.equal(found["dur"], 0),
            pc.starts_with(pc.utf8_lower(found["cat"]), _MARKERS),
        )
        marks = found.filter(is_mark)
        self._marks.append(
            mark_table(
                len(marks),
                **{name: marks[name].combine_chunks() for name in ("cat", "name", "ts", "thread")},
            )
        )
        return found.filter(pc.invert(is_mark))

    def _allocations(self, table: CsvTable) -> pa.Table:
        thread = "thread_id" if table.has("thread_id") else None
        names = ("kind", *TIMES, *([thread] if thread else []))
        for kind, start, end, *threads in table.rows(*names):
            number = number_of(threads[0]) if threads else None
            self._count((kind, False, number), start, end)
        agents, addresses = texts(table, "agent_id"), texts(table, "address")
        sizes = integers(table, "allocation_size")
        return event_table(
            len(table),
            **usual(table, MEMORY),
            cat=table.text("kind"),
            name=table.text("operation"),
            on_gpu=0,
            args=[
                self._allocation_args(*row) for row in zip(agents, sizes, addresses, strict=True)
            ],
        )

    def _allocation_args(
        self, agent: str | None, size: int | None, address: str | None
    ) -> str | None:
        device = self._device(agent) if agent else None
        known = (self._agents or {}).get(agent or "")
        device_type = None if known is None else "cpu" if known.device is None else "hip"
        return json_text(
            {
                Argument.ADDRESS: address_of(address),
                Argument.BYTES: size,
                Argument.DEVICE: device,
                Argument.DEVICE_TYPE: device_type,
            }
        )

    def _counters(self, table: CsvTable) -> pa.Table:
        """The counters of kernels. The kernels themselves, if no other file has them."""
        if not table.has(*TIMES):
            self._not_loaded[COUNTERS_WITHOUT_TIMES] += len(table)
            return event_table(0)
        table.require_unchanged(_VALUE, is_whole=False)
        kernels: dict[str | None, int] = {}
        sums: dict[_Sample, float | None] = {}
        named = [texts(table, name) for name in ("dispatch_id", "counter_name", "agent_id", _VALUE)]
        starts = integers(table, TIMES[0])
        for row, (dispatch, name, agent, value, start) in enumerate(
            zip(*named, starts, strict=True)
        ):
            kernels.setdefault(dispatch, row)
            key, number = (name, agent, start), decimal_of(value)
            before = sums.get(key, 0.0)
            self._unread[f"values of {table.path.name}"] += number is None and not _is_none(value)
            sums[key] = None if number is None or before is None else before + number
        rows = [(name, ts, total, self._device(agent)) for (name, agent, ts), total in sums.items()]
        given = dict(zip(SAMPLE.names, zip(*rows, strict=True), strict=True)) if rows else {}
        self._samples.append(sample_table(len(rows), **given))
        counted = table.rows("counter_name", "agent_id", *TIMES)
        self._samples_counted += len(
            {(name, agent, start) for name, agent, start, end in counted if _is_loaded(start, end)}
        )
        if not kernels or "kernel_trace" in self._tables:
            return event_table(0)
        chosen = table.take(list(kernels.values()))
        found = self._kernel_table(chosen)
        for device, dur in zip(listed(found["device"]), listed(found["dur"]), strict=True):
            key = (Category.KERNEL.value, True, device)
            self._counted[key] += 1
            self._counted_ns[key] += dur
        return found

    def _count(self, key: tuple[str, bool, int | None], start: str, end: str) -> None:
        """Counts a row, with no duration if its times cannot be read."""
        if not _is_loaded(start, end):
            return
        first, last = number_of(start), number_of(end)
        self._counted[key] += 1
        self._counted_ns[key] += 0 if first is None or last is None else last - first

    def _device(self, agent: str | None) -> int | None:
        """The GPU of an agent's name; without a list of agents, the number in the name."""
        if not agent:
            return None
        if self._agents is not None and agent in self._agents:
            return self._agents[agent].device
        number = _DIGITS.search(agent)
        return int(number[0]) if number else None


def _is_loaded(start: str, end: str) -> bool:
    """Whether a row has times, and does not end before it begins."""
    first, last = number_of(start), number_of(end)
    if first is None or last is None:
        return True  # which the ledger then misses
    return first != 0 and not is_backward(first, last)


def _is_none(value: str | None) -> bool:
    """Whether a file says that there is no value."""
    return value is None or value.strip().lower() in _NO_VALUE
