"""Integers of 128 bits, which Arrow has as decimals. DuckDB sums integers to them."""

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def wide_columns(schema: "pa.Schema") -> list[str]:
    """The columns of 128 bits."""
    import pyarrow as pa

    return [field.name for field in schema if field.type == pa.decimal128(38, 0)]


def fits_int64(column: "pa.ChunkedArray | pa.Array") -> bool:
    """Whether 64 bits hold every value of a column of 128 bits."""
    import pyarrow as pa

    try:
        column.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def with_int64(schema: "pa.Schema", narrow: Collection[str]) -> "pa.Schema":
    """The schema with these columns as int64."""
    import pyarrow as pa

    return pa.schema(
        field.with_type(pa.int64()) if field.name in narrow else field for field in schema
    )
