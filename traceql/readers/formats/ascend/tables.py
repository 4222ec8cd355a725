"""The tables of a trace of Ascend, from its events and the files beside it."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.arguments import int64_column
from traceql.readers.dialects.ascend.vocabulary import Category, Metadata
from traceql.readers.formats.ascend.arrows import connections
from traceql.readers.formats.ascend.counts import count_table
from traceql.readers.formats.ascend.devices import device_number
from traceql.readers.formats.ascend.events import AscendEvents
from traceql.readers.formats.ascend.groups import group_arguments, operation_of_parts
from traceql.readers.formats.ascend.issued import external_ids
from traceql.readers.formats.ascend.kernel_details import KernelDetails, with_arguments
from traceql.readers.formats.ascend.side_counters import side_count, side_counters
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.kineto.read import instant_table, places
from traceql.readers.nesting import Nesting
from traceql.readers.tables import ACTIVITY, COUNTER, FLOW, JSON, SLICE
from traceql.readers.tracks import track_table

Int64s = npt.NDArray[np.int64]
_NONE = -1


def tables(
    events: AscendEvents, files: SideFiles, details: KernelDetails, nested: Nesting
) -> dict[str, pa.Table]:
    """All tables of the contract but the remarks."""
    parts, owners = operation_of_parts(events)
    connection = connections(events)
    connection[parts] = connection[owners]
    beside = side_counters(events, files)
    counters = pa.concat_tables([events.counters.table(), beside])
    return {
        "slice": _slices(events, nested, connection, arguments(events, files, details)),
        "activity": _activities(events, files.metadata),
        "flow": pa.table([nested.slice_out, nested.slice_in], schema=FLOW),
        "instant": instant_table(events.parsed),
        "counter": counters.unify_dictionaries().cast(COUNTER),
        "track": track_table(events.tracks),
        "count": count_table(events, side_count(files)),
    }


def arguments(events: AscendEvents, files: SideFiles, details: KernelDetails) -> pa.Array:
    """The arguments of all events, with what the files beside the trace add to them."""
    given = events.parsed.columns.slices.args
    added = dict(details.arguments)
    for index, members in group_arguments(events, files).items():
        added[index] = ", ".join(filter(None, (added.get(index), members)))
    if not added:
        return given
    texts = with_arguments(given.storage.to_pylist(), added)
    return pa.ExtensionArray.from_storage(JSON, pa.array(texts, pa.large_string()))


def _slices(events: AscendEvents, nested: Nesting, connection: Int64s, args: pa.Array) -> pa.Table:
    slices, columns = events.parsed.slices, events.parsed.columns.slices
    of_columns = [
        pa.array(np.arange(len(slices))),
        events.category,
        columns.name,
        pa.array(slices.ts),
        pa.array(slices.dur),
        *places(slices, events.tracks),
        nested.parent,
        nested.depth,
        external_ids(events, nested),
        pa.array(connection, mask=connection == _NONE),
        args,
    ]
    return pa.table(of_columns, schema=SLICE)


def _activities(events: AscendEvents, metadata: Mapping[str, object]) -> pa.Table:
    """Compute tasks, copies and whole operations of communication: where they ran."""
    at = np.flatnonzero(events.of(Category.KERNEL, Category.MEMCPY, Category.COMMUNICATION))
    streams = _streams(events)
    device = metadata.get(Metadata.DEVICE)
    columns = [
        pa.array(at),
        int64_column([_device(events, index, device) for index in at.tolist()]),
        int64_column([streams.get(index) for index in at.tolist()]),
        int64_column([events.bytes(index) for index in at.tolist()]),
        pa.nulls(len(at), ACTIVITY.field("grid").type),
        pa.nulls(len(at), ACTIVITY.field("block").type),
        pa.nulls(len(at), pa.int64()),
    ]
    return pa.table(columns, schema=ACTIVITY)


def _streams(events: AscendEvents) -> dict[int, int]:
    """The stream of each activity: of an operation of communication, that of its first task."""
    stated = {
        index: stream
        for index, a in enumerate(events.arguments)
        if (stream := a.old_stream if a.stream is None else a.stream) is not None
    }
    tasks = np.flatnonzero(events.of(Category.TASK) & (events.connection >= 0))
    first = {int(events.connection[index]): index for index in reversed(tasks.tolist())}
    for index in np.flatnonzero(events.of(Category.COMMUNICATION)).tolist():
        task = first.get(int(events.connection[index]))
        if task in stated:
            stated[index] = stated[task]
    return stated


def _device(events: AscendEvents, index: int, of_files: object) -> int | None:
    """The number of the NPU: in the label of the track ("NPU 1"), else as the files beside say."""
    label = events.tracks[events.parsed.slices.track[index]].process_labels
    if (number := device_number(label)) is not None:
        return number
    return of_files if isinstance(of_files, int) else 0
