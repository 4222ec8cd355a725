# One row per layer family: models whose layers have the same roles in the same order.
# @schema reference
# @scope  rank
# @column family       VARCHAR    Name of the family; the same as in rank_model.
# @column model_types  VARCHAR[]  model_type in the config.json of these models.

"""Lists the layer families of traceql/layers/families."""

import duckdb
import pyarrow as pa

from traceql.layers.families import families
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [{"family": one.name, "model_types": one.model_types} for one in families()]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
