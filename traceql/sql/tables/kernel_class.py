# One row per distinct kernel name: its category, and the rule that decided it.
# @scope  rank
# @needs  activity, event_kind, kernel_rule, slice, symbol, trace
# @column name      VARCHAR  Name of the kernel; NULL for kernels without a name.
# @column category  VARCHAR  Kernel category of all kernels of this name; other if no rule matches.
# @column priority  BIGINT   Rule that decided the category (kernel_rule.priority); NULL if no rule matches.
# @column symbol    VARCHAR  Letter of its symbol (symbol.letter), which is finer than the category.

"""Tries all rules in one CASE expression with bound patterns.

The rules see the type of an operator of an Ascend device in brackets behind the name. The profiler
has it, but not in every export; then the name does. Names of aclnn kernels end with it, as in
aclnnMatmul_MatMulV3Common_MatMulV3.

DuckDB compiles a bound pattern once, but a pattern from a column again for every row.
"""

import duckdb
import pyarrow as pa

from traceql.sql.definition import declared_schema

_RULES = "SELECT priority, pattern FROM kernel_rule ORDER BY priority"
_SYMBOLS = "SELECT category, pattern, letter FROM symbol ORDER BY position"
_NAMES = """
    WITH kernel AS (
        SELECT slice.name
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        WHERE event_kind.kind = 'kernel'
        UNION
        SELECT slice.name
        FROM slice
        ANTI JOIN event_kind USING (rank, cat)
        SEMI JOIN activity USING (id)
    ),
    -- Of Ascend devices: the arguments of other profilers are not read.
    typed AS (
        SELECT slice.name, MIN(json_extract_string(slice.args, '$."Type"')) AS recorded
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        INNER JOIN trace ON slice.rank = trace.rank
        WHERE trace.dialect = 'ascend' AND event_kind.kind = 'kernel'
        GROUP BY slice.name
    ),
    kernel_type AS (
        SELECT
            name,
            CASE
                WHEN recorded IS NOT NULL THEN recorded
                WHEN starts_with(name, 'hcom_') THEN regexp_extract(name, '^hcom_[A-Za-z]+_')
                WHEN regexp_matches(name, '^aclnn[^_]+_.+_[^_]+$') THEN regexp_extract(name, '_([^_]+)$', 1)
                WHEN ends_with(name, '_MemSet') THEN 'MemSet'
                WHEN regexp_matches(name, '^trans_[A-Za-z]+_\\d+$') THEN regexp_extract(name, '^trans_([A-Za-z]+)', 1)
                ELSE name
            END AS type
        FROM typed
    )
    SELECT
        kernel.name,
        COALESCE(kernel.name, '') || COALESCE(' [' || kernel_type.type || ']', '') AS called
    FROM kernel
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
