# One row per distinct kernel name: its category, and the rule that decided it.
# @scope  rank
# @needs  event_kind, kernel_rule, kernel_type, slice, symbol
# @column name      VARCHAR  Name of the kernel; NULL for kernels without a name.
# @column category  VARCHAR  Kernel category of all kernels of this name; other if no rule matches.
# @column priority  BIGINT   Rule that decided the category (kernel_rule.priority); NULL if no rule matches.
# @column symbol    VARCHAR  Letter of its symbol (symbol.letter), which is finer than the category.

"""Tries all rules in one CASE expression with bound patterns.

Where the profiler tells the type of a kernel, the rules see it in brackets behind the name.

DuckDB compiles a bound pattern once, but a pattern from a column again for every row.
"""

import duckdb
import pyarrow as pa

from traceql.table_head import declared_schema

_RULES = "SELECT priority, pattern FROM kernel_rule ORDER BY priority"
_SYMBOLS = "SELECT category, pattern, letter FROM symbol ORDER BY position"
_NAMES = """
    SELECT
        kernel.name,
        COALESCE(kernel.name, '') || COALESCE(' [' || kernel_type.type || ']', '') AS called
    FROM (
        SELECT DISTINCT slice.name
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        WHERE event_kind.kind = 'kernel'
    ) AS kernel
    LEFT JOIN kernel_type USING (name)
"""
_CATEGORIES = "SELECT priority, category FROM kernel_rule"


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    rules = con.execute(_RULES).fetchall()
    symbols = con.execute(_SYMBOLS).fetchall()
    rule_tests = "WHEN regexp_matches(called, ?) THEN ? " * len(rules)
    symbol_tests = "WHEN category = ? AND regexp_matches(called, ?) THEN ? " * len(symbols)
    decided = (
        f"SELECT name, called, CAST(CASE {rule_tests} END AS BIGINT) AS priority FROM ({_NAMES})"
    )
    known = f"""
        SELECT name, called, COALESCE(category, 'other') AS category, priority
        FROM ({decided})
        LEFT JOIN ({_CATEGORIES}) USING (priority)
    """
    bound = [
        *(value for priority, pattern in rules for value in (pattern, priority)),
        *(value for symbol in symbols for value in symbol),
    ]
    with_symbol = f"""
        WITH known AS MATERIALIZED ({known})
        SELECT name, category, priority, CASE {symbol_tests} END AS symbol
        FROM known
    """
    schema = declared_schema(__file__)
    found = con.execute(with_symbol, bound).fetchall()  # con.sql would compile each pattern twice
    return pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in found], schema
    )
