# One row per rule that gives the kernels of a module their role.
# @kind   scratch
# @scope  rank
# @column priority      BIGINT     The matching rule with the lowest number wins.
# @column path_pattern  VARCHAR    RE2 regular expression, found anywhere in the module's path.
# @column positions     VARCHAR    RE2 regular expression of the call's position among those of its class by the same caller.
# @column symbols       VARCHAR[]  Letters of the symbols that it is for; all if empty.
# @column role          VARCHAR    Role.

"""The rules of traceql/layers/modules.csv."""

import duckdb
import pyarrow as pa

from traceql.layers.modules import module_roles
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return pa.Table.from_pylist(module_roles(), declared_schema(__file__))
