"""The events of one process of rocprofv3's JSON."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.arguments import whole_numbers
from traceql.readers.dialects.rocprof.vocabulary import (
    COPIES,
    MARK,
    PROCESS_RANGES,
    Argument,
    Category,
)
from traceql.readers.formats.rocprof import tool_records as tool
from traceql.readers.formats.rocprof.columns import event_table, json_text, mark_table, sample_table
from traceql.readers.formats.rocprof.recording import (
    COUNTERS_WITHOUT_TIMES,
    EVENT,
    ITSELF,
    MEMORY,
    RANGES,
    SAMPLE,
    Agent,
    Counted,
    Process,
    copied_by,
    is_backward,
)
from traceql.readers.formats.rocprof.tool_values import (
    address_of,
    counted_kernel,
    graph_of,
    kernel_args,
    kernel_name,
    messages,
    usual,
)
from traceql.readers.unpacked import ANEW

_Record = TypeVar("_Record", bound=tool.Timed)
_MARKERS = "marker_api"
_CALLS = ("hip_api", "hsa_api", _MARKERS, "rccl_api", "rocdecode_api", "rocjpeg_api")
_READ = {"kernel_dispatch", "memory_copy", "memory_allocation", "scratch_memory", *_CALLS}


class JsonProcess:
    """Reads the records of one process.

    Args:
        agents: the processors, by their handle.
    """

    def __init__(self, found: tool.ToolProcess, agents: Mapping[int, Agent]) -> None:
        self._found, self._agents = found, agents
        self._kinds = found.strings.buffer_records
        self._messages = messages(found.strings.marker_api)
        self._counted: Counter[tuple[str, bool, int | None]] = Counter()
        self._counted_ns: Counter[tuple[str, bool, int | None]] = Counter()
        self._unread: Counter[str] = Counter()
        self._without_times = 0
        self._backward = 0
        self._counters_without_times = 0
        self._marks: list[pa.Table] = []
        self._marks_counted = 0

    def process(self, name: str | None) -> Process:
        """Everything of the process.

        Args:
            name: of its program.
        """
        counters = self._counter_records()
        events = [self._kernels(counters), self._copies(), *map(self._calls, _CALLS)]
        events += [self._allocations(kind) for kind in ("memory_allocation", "scratch_memory")]
        samples, samples_counted = self._samples(
            [
                one
                for one in counters
                if not is_backward(
                    one.dispatch_data.start_timestamp, one.dispatch_data.end_timestamp
                )
            ]
        )
        counted = [
            Counted(*key, events=number, dur=self._counted_ns[key])
            for key, number in self._counted.items()
        ]
        return Process(
            self._found.metadata.pid,
            name,
            self._agents,
            pa.concat_tables([EVENT.empty_table(), *events]),
            pa.concat_tables([mark_table(0), *self._marks]),
            samples,
            counted,
            self._marks_counted,
            samples_counted,
            self._without_times,
            self._backward,
            dict(self._unread),
            self._not_loaded(),
        )

    def _records(self, kind: str, type_: type[_Record]) -> list[_Record]:
        """The records of a kind that have times."""
        found = self._decoded(self._found.buffer_records.get(kind), type_, kind)
        timed = [one for one in found if one.start_timestamp]
        self._without_times += len(found) - len(timed)
        return self._forward(timed)

    def _forward(self, records: list[_Record]) -> list[_Record]:
        """Those that do not end before they begin."""
        found = [one for one in records if not is_backward(one.start_timestamp, one.end_timestamp)]
        self._backward += len(records) - len(found)
        return found

    def _decoded(self, text: msgspec.Raw | None, type_: type[Any], kind: str) -> list[Any]:
        """All records, or where one of them is odd, those that can be read one by one."""
        if text is None:
            return []
        try:
            found: list[Any] = msgspec.json.decode(text, type=list[type_], strict=False)  # type: ignore[valid-type]
            return found
        except msgspec.ValidationError:
            pass
        found = []
        decoder = msgspec.json.Decoder(type_, strict=False)
        try:
            each = msgspec.json.decode(text, type=list[msgspec.Raw])
        except msgspec.ValidationError:
            raise TraceCorrupt(f"the records '{kind}' are no list; {ANEW}") from None
        for one in each:
            try:
                found.append(decoder.decode(one))
            except msgspec.ValidationError:
                self._unread[kind] += 1
        return found

    def _count(
        self, found: Sequence[tool.Timed], cats: Sequence[str], on_gpu: bool, numbers: Sequence[Any]
    ) -> None:
        """Counts records one by one, apart from the columns that they are read into."""
        for one, cat, number in zip(found, cats, whole_numbers(numbers), strict=True):
            self._counted[cat, on_gpu, number] += 1
            self._counted_ns[cat, on_gpu, number] += one.end_timestamp - one.start_timestamp

    def _kernels(self, counters: Sequence[tool.CounterRecord]) -> pa.Table:
        """The kernels; those whose counters were read, where no others were recorded."""
        found = self._records("kernel_dispatch", tool.Kernel)
        if not found:
            found = self._forward([counted_kernel(one) for one in counters])
        cats = [Category.KERNEL.value] * len(found)
        infos = [one.dispatch_info for one in found]
        device = [self._device(info.agent_id.handle) for info in infos]
        self._count(found, cats, True, device)
        symbols = {one.kernel_id: one for one in self._found.kernel_symbols}
        nothing = tool.Symbol()
        of_kernel = [symbols.get(info.kernel_id, nothing) for info in infos]
        sizes = {
            f"{what}_{axis}": [getattr(getattr(info, field), axis) for info in infos]
            for what, field in (("grid", "grid_size"), ("block", "workgroup_size"))
            for axis in "xyz"
        }
        return event_table(
            len(found),
            **usual(found),
            **sizes,
            cat=Category.KERNEL.value,
            name=[kernel_name(s, info) for s, info in zip(of_kernel, infos, strict=True)],
            on_gpu=1,
            device=device,
            stream=[one.stream_id.handle if one.stream_id else None for one in found],
            queue=[info.queue_id.handle for info in infos],
            dispatch=[info.dispatch_id for info in infos],
            args=[kernel_args(s, info) for s, info in zip(of_kernel, infos, strict=True)],
        )

    def _copies(self) -> pa.Table:
        found = self._records("memory_copy", tool.Copy)
        cats = [Category.COPY.value] * len(found)
        device = [
            copied_by(self._device(one.dst_agent_id.handle), self._device(one.src_agent_id.handle))
            for one in found
        ]
        self._count(found, cats, True, device)
        operations = [self._operation(one) for one in found]
        return event_table(
            len(found),
            **usual(found),
            cat=Category.COPY.value,
            name=[COPIES.get(operation, operation) for operation in operations],
            on_gpu=1,
            device=device,
            stream=[one.stream_id.handle if one.stream_id else None for one in found],
            bytes=[one.bytes for one in found],
            args=[
                json_text(
                    {
                        "dst_agent_id": one.dst_agent_id.handle,
                        "src_agent_id": one.src_agent_id.handle,
                    }
                )
                for one in found
            ],
        )

    def _calls(self, kind: str) -> pa.Table:
        """Calls and ranges. Marks, which have no duration, are put aside."""
        listed = self._records(kind, tool.Call)
        operations = [self._operation(one) for one in listed]
        if kind == _MARKERS:
            self._put_aside(
                [one for one, name in zip(listed, operations, strict=True) if name == MARK]
            )
            listed = [one for one, name in zip(listed, operations, strict=True) if name != MARK]
            operations = [name for name in operations if name != MARK]
        cats = [self._kind(one) for one in listed]
        self._count(listed, cats, False, [one.thread_id for one in listed])
        names: list[str] = operations
        if kind == _MARKERS:
            names = [
                self._messages.get(one.correlation_id.internal, name)
                for one, name in zip(listed, operations, strict=True)
            ]
        return event_table(
            len(listed),
            **usual(listed, [RANGES if name in PROCESS_RANGES else ITSELF for name in operations]),
            cat=cats,
            name=names,
            on_gpu=0,
            graph=[graph_of(one.args) for one in listed],
        )

    def _put_aside(self, marks: Sequence[tool.Call]) -> None:
        self._marks_counted += len(marks)
        table = mark_table(
            len(marks),
            cat=[self._kind(one) for one in marks],
            name=[self._messages.get(one.correlation_id.internal, MARK) for one in marks],
            ts=[one.start_timestamp for one in marks],
            thread=[one.thread_id for one in marks],
        )
        self._marks.append(table)

    def _allocations(self, kind: str) -> pa.Table:
        found = self._records(kind, tool.Allocation)
        cats = [self._kind(one) for one in found]
        self._count(found, cats, False, [one.thread_id for one in found])
        return event_table(
            len(found),
            **usual(found, MEMORY),
            cat=cats,
            name=[self._operation(one) for one in found],
            on_gpu=0,
            args=[self._allocation_args(one) for one in found],
        )

    def _allocation_args(self, one: tool.Allocation) -> str | None:
        device = self._device(one.agent_id.handle)
        is_cpu = device is None and one.agent_id.handle in self._agents
        return json_text(
            {
                Argument.ADDRESS: address_of(one.address),
                Argument.BYTES: one.allocation_size,
                Argument.DEVICE: device,
                Argument.DEVICE_TYPE: "cpu" if is_cpu else None if device is None else "hip",
            }
        )

    def _counter_records(self) -> list[tool.CounterRecord]:
        """The counters of each kernel that has times."""
        text = self._found.callback_records.get("counter_collection")
        found = self._decoded(text, tool.CounterRecord, "counter_collection")
        timed = [one for one in found if one.dispatch_data.start_timestamp]
        self._counters_without_times = len(found) - len(timed)
        return timed

    def _samples(self, records: Sequence[tool.CounterRecord]) -> tuple[pa.Table, int]:
        """The counters of each kernel, summed over its units; and their number."""
        names = {one.id.handle: one.name for one in self._found.counters}
        rows: list[tuple[str, int, float, int | None]] = []
        for one in records:
            sums: defaultdict[str, float] = defaultdict(float)
            for value in one.records:
                handle = value.counter_id.handle
                sums[names.get(handle, f"counter {handle}")] += value.value
            ts = one.dispatch_data.start_timestamp
            device = self._device(one.dispatch_data.dispatch_info.agent_id.handle)
            rows += [(name, ts, total, device) for name, total in sums.items()]
        columns = dict(zip(SAMPLE.names, zip(*rows, strict=True), strict=True)) if rows else {}
        distinct = {
            (number, value.counter_id.handle)
            for number, one in enumerate(records)
            for value in one.records
        }
        return sample_table(len(rows), **columns), len(distinct)

    def _not_loaded(self) -> dict[str, int]:
        others = self._found.buffer_records.keys() - _READ
        counts = {
            kind: len(msgspec.json.decode(self._found.buffer_records[kind])) for kind in others
        } | {COUNTERS_WITHOUT_TIMES: self._counters_without_times}
        return {kind: number for kind, number in sorted(counts.items()) if number}

    def _device(self, handle: int) -> int | None:
        agent = self._agents.get(handle)
        return None if agent is None else agent.device

    def _kind(self, one: tool.Timed) -> str:
        known = 0 <= one.kind < len(self._kinds)
        return self._kinds[one.kind].kind if known else f"kind {one.kind}"

    def _operation(self, one: tool.Timed) -> str:
        operations = self._kinds[one.kind].operations if 0 <= one.kind < len(self._kinds) else []
        known = 0 <= one.operation < len(operations)
        return operations[one.operation] if known else f"operation {one.operation}"
