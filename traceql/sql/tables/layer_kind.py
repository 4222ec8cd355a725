# One row per kind of layer that the models of a family may have, such as one with an MLP or one with experts.
# @schema reference
# @scope  rank
# @column family  VARCHAR    Layer family: models whose layers have the same roles in the same order; as in rank_model.
# @column kind    BIGINT     Number of the kind in its family, from 0.
# @column roles   VARCHAR[]  Roles of such a layer, in their order; a layer may lack some of them.
# @column once    VARCHAR[]  Roles for which such a layer has exactly one kernel that does the work; kernels that only help, such as copies, do not count.

"""Lists the kinds of layers of the families in traceql/analysis/layers/families."""

import duckdb
import pyarrow as pa

from traceql.analysis.layers.roles import families
from traceql.sql.definition import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [
        {
            "family": one.name,
            "kind": number,
            "roles": list(dict.fromkeys(names)),
            # in one place, with one kernel that does the work
            "once": [r.name for r in kind if r.times == "1" and names.count(r.name) == 1],
        }
        for one in families()
        for number, kind in enumerate(one.kinds)
        for names in [[role.name for role in kind]]
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
