# One row per symbol of the layer families: the kind of kernel that a letter stands for.
# @scope  rank
# @column position             BIGINT     Order; the first symbol of a category whose pattern matches counts.
# @column letter               VARCHAR    Its letter; as in kernel.symbol.
# @column name                 VARCHAR    Its name, which layer families use.
# @column category             VARCHAR    Category of its kernels.
# @column pattern              VARCHAR    RE2 regular expression, found anywhere in the kernel's name.
# @column traits               VARCHAR[]  between_passes, outside_layers, beside_layers or inside_layers (where in a step it runs), moves_data (prepares input or belongs to sampling), does_work (does the work of its role), optional (a layer may have it or not).
# @column role_outside_layers  VARCHAR    Role of its kernels outside layers; NULL if that depends.
# @column note                 VARCHAR    What it is.

"""The symbols of traceql/layers/symbols.csv."""

import duckdb
import pyarrow as pa

from traceql.layers.symbols import symbols
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [
        {
            "position": position,
            "letter": one.letter,
            "name": one.name,
            "category": one.category,
            "pattern": one.pattern,
            "traits": sorted(one.traits),
            "role_outside_layers": one.role_outside_layers,
            "note": one.note,
        }
        for position, one in enumerate(symbols())
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
