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

from traceql.analysis.layers.roles import Kind, families
from traceql.sql.definition import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [
        {
            "family": one.name,
            "kind": number,
            "roles": list(dict.fromkeys(role.name for role in kind)),
            "once": _once(kind),
        }
        for one in families()
        for number, kind in enumerate(one.kinds)
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))


def _once(kind: Kind) -> list[str]:
    """The roles that a kind of layer has in one place, with one kernel that does the work."""
    names = [role.name for role in kind]
    return [role.name for role in kind if role.times == "1" and names.count(role.name) == 1]
