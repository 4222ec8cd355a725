"""Arrows between slices, which Perfetto calls flows."""

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from traceql.present.pftrace.octets import Fields, constant, fixed64_field, message, varint_field
from traceql.util.protobuf_wire import Mask, UInt64s

_Legacy = TrackEvent.LegacyEvent
_APART = 1 << 62  # added to the numbers of `flow`, so that they differ from those of `flow_out`


def flow_fields(rows: pa.RecordBatch) -> list[Fields]:
    """The arrows of slices, for those of the columns `flow_out`, `flow_in` and `flow` that exist.

    An arrow leads from a slice with `flow_out` to each slice that has the same number in
    `flow_in`. Only this older form of Perfetto's flows can fan out, for example from a graph
    launch to all its kernels. Slices with the same `flow` form a chain in the order of their
    starts.
    """
    names = rows.schema.names
    fields = []
    if "flow_out" in names:
        fields.append(_legacy_flow(rows["flow_out"], _Legacy.FLOW_OUT))
    if "flow_in" in names:
        fields.append(_legacy_flow(rows["flow_in"], _Legacy.FLOW_IN))
    if "flow" in names:
        numbers = _bind_numbers(rows["flow"]) + np.uint64(_APART)
        fields.append(
            fixed64_field(TrackEvent.FLOW_IDS_FIELD_NUMBER, numbers).where(_there(rows["flow"]))
        )
    return fields


def _legacy_flow(column: pa.Array, direction: int) -> Fields:
    way = _Legacy(flow_direction=direction).SerializeToString()
    flow = message(
        TrackEvent.LEGACY_EVENT_FIELD_NUMBER,
        varint_field(_Legacy.BIND_ID_FIELD_NUMBER, _bind_numbers(column)),
        constant(len(column), way),
    )
    return flow.where(_there(column))


def _bind_numbers(column: pa.Array) -> UInt64s:
    """The numbers plus 1, because 0 means "no flow" in Perfetto."""
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    numbers: UInt64s = values.astype(np.uint64) + np.uint64(1)
    return numbers


def _there(column: pa.Array) -> Mask:
    there: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return there
