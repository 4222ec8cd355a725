# One row per layer family: models whose layers consist of the same kernels in the same order.
# @scope  rank
# @column family       VARCHAR    Name of the family; the same as in rank_model.
# @column model_types  VARCHAR[]  model_type in the config.json of these models.
# @column once         VARCHAR[]  Roles for which every layer has exactly one kernel that does the work; kernels that only help, such as copies, do not count.

"""Lists the layer families of traceql/layers/families."""

import duckdb
import pyarrow as pa

from traceql.layers.grammar import grammars
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [
        {"family": one.name, "model_types": one.model_types, "once": one.once} for one in grammars()
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
