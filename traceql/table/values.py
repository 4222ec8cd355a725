"""Arrow columns as Python values: maps become dicts, which Arrow itself gives as lists of pairs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def python_values(column: "pa.ChunkedArray") -> list[Any]:
    """The values of a column."""
    values: list[Any] = column.to_pylist()
    if not _is_map(column):
        return values
    return [value if value is None else dict(value) for value in values]


def python_rows(table: "pa.Table") -> list[dict[str, Any]]:
    """One dict per row."""
    if not any(map(_is_map, table.columns)):
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _is_map(column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_map(column.type))
