"""Names in a chart: short enough to be drawn, and still one for each thing."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.data import axis_title
from traceql.result.chart.palette import UNKNOWN
from traceql.result.text_table.names import distinct_names
from traceql.util.printable import printable, shortened

_BACKSLASH = "\u29f5"  # another character of that look
_LONGEST = 500  # letters; of a million, the drawing library measures one after the other


def with_labels(table: pa.Table) -> pa.Table:
    """The table with short texts and printable names of columns."""
    for place, column in enumerate(table.columns):
        if pa.types.is_string(column.type) and _longest(column) > _LONGEST:
            table = table.set_column(place, table.field(place), _short(column))
    return table.rename_columns([column_label(name) for name in table.column_names])


def with_joined_rows(table: pa.Table, channels: dict[str, str]) -> tuple[pa.Table, dict[str, str]]:
    """One column of texts for a y of several columns: `attn_allreduce, layer 3, step 14`."""
    columns = channels.get("y", "").split(",")
    if len(columns) < 2:
        return table, channels
    name = ", ".join(columns)
    texts = [_joined(dict(zip(columns, row, strict=True))) for row in _rows(table, columns)]
    return table.append_column(name, pa.array(texts)), channels | {"y": name}


def column_label(name: str) -> str:
    """The name of a column in a chart; Vega-Lite reads no name with a backslash."""
    return printable(name).replace("\\", _BACKSLASH)


def _rows(table: pa.Table, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[column].to_pylist() for column in columns), strict=True)


def _joined(row: dict[str, Any]) -> str:
    """The values that there are; numbers with what they count. Unknown if there is none."""
    parts = (
        value if isinstance(value, str) else f"{axis_title(column)} {value}"
        for column, value in row.items()
        if value is not None
    )
    return ", ".join(parts) or UNKNOWN


def _longest(column: pa.ChunkedArray) -> int:
    return pc.max(pc.utf8_length(column)).as_py() or 0


def _short(column: pa.ChunkedArray) -> pa.Array:
    numbered = column.combine_chunks().dictionary_encode()
    names = distinct_names([shortened(name, _LONGEST) for name in numbered.dictionary.to_pylist()])
    return pa.DictionaryArray.from_arrays(numbered.indices, pa.array(names)).cast(pa.string())
