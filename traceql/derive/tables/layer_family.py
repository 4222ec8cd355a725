# One row per layer family: the order of roles that the layers of some models have.
# @scope  rank
# @column family       VARCHAR    Its name; as in rank_model.
# @column model_types  VARCHAR[]  model_type of the config.json of these models.
# @column once         VARCHAR[]  Roles of which every layer has exactly one kernel that does the work.

"""The layer families of traceql/layers/families."""

import duckdb
import pyarrow as pa

from traceql.layers.grammar import grammars
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [
        {"family": one.name, "model_types": one.model_types, "once": one.once} for one in grammars()
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
