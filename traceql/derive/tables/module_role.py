# One row per rule that gives the kernels of a module their role.
# @kind   scratch
# @scope  rank
# @column priority      BIGINT     Order of the rules: of all rules that match, the one with the lowest number decides.
# @column path_pattern  VARCHAR    RE2 regular expression, which may match anywhere in the path of the module.
# @column positions     VARCHAR    RE2 regular expression for the position of the call among those of its class inside the same parent (module.position).
# @column symbols       VARCHAR[]  Letters of the symbols that the rule is for; all symbols if empty.
# @column role          VARCHAR    Role of the kernels that match.

"""Lists the rules of traceql/layers/modules.csv."""

import duckdb
import pyarrow as pa

from traceql.layers.modules import module_roles
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return pa.Table.from_pylist(module_roles(), declared_schema(__file__))
