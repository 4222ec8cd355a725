"""Arrow columns as Python values: maps become dicts, which Arrow itself gives as lists of pairs."""

from typing import TYPE_CHECKING, Any

from traceql.errors import QueryInvalid

if TYPE_CHECKING:
    import pyarrow as pa


def python_values(column: "pa.ChunkedArray | pa.Array", name: str) -> list[Any]:
    """The values of a column.

    Raises:
        QueryInvalid: a date or a time that Python does not have, such as one before the year 1.
    """
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        raise beyond_python(name) from error
    if not has_map(column.type):
        return values
    return [_with_dicts(value, column.type) for value in values]


def python_rows(rows: "pa.Table | pa.RecordBatch") -> list[dict[str, Any]]:
    """One dict per row."""
    names = rows.schema.names
    columns = [python_values(*column) for column in zip(rows.columns, names, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def beyond_python(column: str) -> QueryInvalid:
    return QueryInvalid(
        f'column "{column}" has a value outside the years 1 to 9999, which Python does not have; '
        f'select CAST("{column}" AS VARCHAR)'
    )


def has_map(kind: "pa.DataType") -> bool:
    """Whether a type is a map or has one inside."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return True
    inner = range(kind.num_fields) if pa.types.is_nested(kind) else ()
    return any(has_map(kind.field(number).type) for number in inner)


def _with_dicts(value: Any, kind: "pa.DataType") -> Any:
    import pyarrow as pa

    if value is None or not has_map(kind):
        return value
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if not pa.types.is_map(kind):
        return [_with_dicts(each, kind.value_type) for each in value]
    pairs = [(key, _with_dicts(item, kind.item_type)) for key, item in value]
    if pa.types.is_nested(kind.key_type):
        return pairs  # a dict cannot have such keys
    return dict(pairs)
