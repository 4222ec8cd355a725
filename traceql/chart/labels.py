"""Names in a chart: short enough to be drawn, and still one for each thing."""

import pyarrow as pa
import pyarrow.compute as pc

from traceql.printable import printable, shortened
from traceql.table.names import distinct_names

_BACKSLASH = "\u29f5"  # another character of that look
_LONGEST = 500  # letters; of a million, the drawing library measures one after the other


def with_labels(table: pa.Table) -> pa.Table:
    """The table with short texts and printable names of columns."""
    for place, column in enumerate(table.columns):
        if pa.types.is_string(column.type) and _longest(column) > _LONGEST:
            table = table.set_column(place, table.field(place), _short(column))
    return table.rename_columns([column_label(name) for name in table.column_names])


def column_label(name: str) -> str:
    """The name of a column in a chart; Vega-Lite reads no name with a backslash."""
    return printable(name).replace("\\", _BACKSLASH)


def _longest(column: pa.ChunkedArray) -> int:
    return pc.max(pc.utf8_length(column)).as_py() or 0


def _short(column: pa.ChunkedArray) -> pa.Array:
    numbered = column.combine_chunks().dictionary_encode()
    names = distinct_names([shortened(name, _LONGEST) for name in numbered.dictionary.to_pylist()])
    return pa.DictionaryArray.from_arrays(numbered.indices, pa.array(names)).cast(pa.string())
