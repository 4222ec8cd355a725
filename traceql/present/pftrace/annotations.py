"""Debug annotations: the values that a viewer shows when a slice is selected."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import DebugAnnotation, TrackEvent

from traceql.present.pftrace.interning import ANNOTATION_NAME, ANNOTATION_TEXT, Interning
from traceql.present.pftrace.octets import (
    Fields,
    constant,
    fixed64_field,
    message,
    text_field,
    varint_field,
)

_UNIQUE = "sql"  # different in every row, so interning would not save anything


def annotation_fields(columns: Mapping[str, pa.Array], interning: Interning) -> list[Fields]:
    """One annotation per column and row; none if the value is NULL."""
    return [_annotation(name, column, interning) for name, column in columns.items()]


def _annotation(name: str, column: pa.Array, interning: Interning) -> Fields:
    number = interning.number(ANNOTATION_NAME, name)
    named = DebugAnnotation(name_iid=number).SerializeToString()
    annotation = message(
        TrackEvent.DEBUG_ANNOTATIONS_FIELD_NUMBER,
        constant(len(column), named),
        _value_field(name, column, interning),
    )
    return annotation.where(column.is_valid().to_numpy(zero_copy_only=False))


def _value_field(name: str, column: pa.Array, interning: Interning) -> Fields:
    if name == _UNIQUE:
        return text_field(DebugAnnotation.STRING_VALUE_FIELD_NUMBER, column)
    if pa.types.is_string(column.type):
        numbers = interning.numbers(ANNOTATION_TEXT, column)
        return varint_field(DebugAnnotation.STRING_VALUE_IID_FIELD_NUMBER, numbers)
    if pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
        return fixed64_field(DebugAnnotation.DOUBLE_VALUE_FIELD_NUMBER, values)
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return varint_field(DebugAnnotation.INT_VALUE_FIELD_NUMBER, values.astype(np.uint64))
