# One row per symbol of the layer families: a kind of kernel, finer than the category.
#
# Each kernel has one symbol. A layer family describes a layer as a sequence of symbols.
# @schema reference
# @scope  rank
# @column position             BIGINT     Order in which the patterns are tried, from 0: the first symbol of the category whose pattern matches counts.
# @column letter               VARCHAR    Letter of the symbol; kernel.symbol has it.
# @column name                 VARCHAR    Name of the symbol; the files of layer families use it.
# @column category             VARCHAR    Kernel category of its kernels.
# @column pattern              VARCHAR    RE2 regular expression, which may match anywhere in the kernel's name.
# @column traits               VARCHAR[]  Where such kernels run and what they are for: between_passes (between two forward passes), outside_layers (next to the layers), inside_layers (only in layers), anchors_layer (once in every layer that has attention or a state), feed_forward (only in the MLP or the experts of a layer), moves_data (prepares input or belongs to sampling), does_work (does the work of its role), optional (some layers have it and others do not).
# @column role_outside_layers  VARCHAR    Role of its kernels outside layers; NULL if the symbol alone does not decide it.
# @column note                 VARCHAR    Description of the kernels.

"""Lists the symbols of traceql/analysis/layers/symbols.csv."""

from dataclasses import asdict

import duckdb
import pyarrow as pa

from traceql.analysis.layers.kernel_text import symbols
from traceql.sql.definition import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [
        {**asdict(one), "position": position, "traits": sorted(one.traits)}
        for position, one in enumerate(symbols())
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
