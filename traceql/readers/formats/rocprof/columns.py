"""Builds the tables of a recording from columns."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.arguments import int64_column, text_column
from traceql.readers.formats.rocprof.recording import EVENT, MARK, SAMPLE, require_time
from traceql.readers.unpacked import ANEW

Column: TypeAlias = Any  # a sequence, an array, or a single value, which is that of all rows
_ENCODE = msgspec.json.Encoder().encode


def json_text(values: Mapping[str, Any]) -> str | None:
    """Arguments as JSON, without those that are None; None if there are no others."""
    known = {key: value for key, value in values.items() if value is not None}
    return _ENCODE(known).decode() if known else None


def event_table(rows: int, **columns: Column) -> pa.Table:
    """The table EVENT; columns that are not given are NULL.

    Raises:
        TraceCorrupt: an event has a time that cannot be.
    """
    return checked(_table(rows, EVENT, columns))


def mark_table(rows: int, **columns: Column) -> pa.Table:
    """The table MARK, like `event_table`."""
    return checked(_table(rows, MARK, columns))


def sample_table(rows: int, **columns: Column) -> pa.Table:
    """The table SAMPLE, like `event_table`."""
    return checked(_table(rows, SAMPLE, columns))


def checked(table: pa.Table) -> pa.Table:
    """The table; raises TraceCorrupt if it has a time that cannot be."""
    for name in {"ts", "dur"} & set(table.schema.names):
        if table[name].null_count:
            raise TraceCorrupt(f"an event has a time that is no integer of 64 bits; {ANEW}")
    if table.num_rows:
        ts = table["ts"].to_numpy()
        require_time(int(ts.min()))
        require_time(int(ts.max()))
    return table


def _table(rows: int, schema: pa.Schema, columns: Mapping[str, Column]) -> pa.Table:
    return pa.table(
        [_column(rows, columns.get(each.name), each.type) for each in schema], schema=schema
    )


def _column(rows: int, values: Column, type_: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(rows, type_)
    if isinstance(values, str | int | bool):
        return pa.repeat(pa.scalar(values, type_), rows)
    if isinstance(values, pa.Array):
        return values.cast(type_)
    if type_ == pa.int64():
        return int64_column(values)
    if type_ == pa.large_string():
        return text_column(values)
    return pa.array(values, type_)
