# One row per distinct kernel name: its category, and the rule that decided it.
# @scope  rank
# @needs  activity, event_kind, kernel_rule, slice, symbol, trace
# @column name      VARCHAR  Name of the kernel; NULL for kernels without a name.
# @column category  VARCHAR  Kernel category of all kernels of this name; other if no rule matches.
# @column priority  BIGINT   Rule that decided the category (kernel_rule.priority); NULL if no rule matches.
# @column symbol    VARCHAR  Letter of its symbol (symbol.letter), which is finer than the category.

"""Tries the rules in their order on the names that no earlier one matches.

The rules see the type of an operator of an Ascend device in brackets behind the name. The profiler
has it, but not in every export; then the name does. Names of aclnn kernels end with it, as in
aclnnMatmul_MatMulV3Common_MatMulV3.

Arrow has the regular expressions of DuckDB (RE2), and compiles a pattern once; DuckDB does it
several times for a statement, and again for every row if the pattern comes from a column.
"""

from collections.abc import Iterable
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.sql.definition import declared_schema

_RULES = "SELECT priority, category, pattern FROM kernel_rule ORDER BY priority"
_SYMBOLS = "SELECT category, pattern, letter FROM symbol ORDER BY position"
_NAMES = """
    SELECT slice.name
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'kernel'
    UNION
    SELECT slice.name
    FROM slice
    ANTI JOIN event_kind USING (rank, cat)
    SEMI JOIN activity USING (id)
"""
_IS_ASCEND = "SELECT EXISTS (FROM trace WHERE dialect = 'ascend')"
_TYPES = """
    WITH typed AS (
        SELECT slice.name, MIN(json_extract_string(slice.args, '$."Type"')) AS recorded
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        INNER JOIN trace ON slice.rank = trace.rank
        WHERE trace.dialect = 'ascend' AND event_kind.kind = 'kernel'
        GROUP BY slice.name
    )
    SELECT
        name,
        CASE
            WHEN recorded IS NOT NULL THEN recorded
            WHEN starts_with(name, 'hcom_') THEN regexp_extract(name, '^hcom_[A-Za-z]+_')
            WHEN regexp_matches(name, '^aclnn[^_]+_.+_[^_]+$') THEN regexp_extract(name, '_([^_]+)$', 1)
            WHEN ends_with(name, '_MemSet') THEN 'MemSet'
            WHEN regexp_matches(name, '^trans_[A-Za-z]+_\\d+$') THEN regexp_extract(name, '^trans_([A-Za-z]+)', 1)
            ELSE name
        END
    FROM typed
    WHERE name IS NOT NULL
"""
Meaning = TypeVar("Meaning")


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    names = [name for (name,) in con.execute(_NAMES).fetchall()]
    types = {}
    if con.execute(_IS_ASCEND).fetchall()[0][0]:
        types = dict(con.execute(_TYPES).fetchall())
    called = [f"{name} [{types[name]}]" if name in types else name or "" for name in names]
    rules = con.execute(_RULES).fetchall()
    by_rule = ((pattern, (priority, category)) for priority, category, pattern in rules)
    decided = _first_matches(called, by_rule)
    classes = [decision or (None, "other") for decision in decided]
    symbols: list[str | None] = [None] * len(names)
    listed = con.execute(_SYMBOLS).fetchall()
    for category in {category for _, category in classes}:
        places = [place for place, one in enumerate(classes) if one[1] == category]
        by_symbol = ((pattern, letter) for of, pattern, letter in listed if of == category)
        letters = _first_matches([called[place] for place in places], by_symbol)
        for place, letter in zip(places, letters, strict=True):
            symbols[place] = letter
    columns = [names, [c for _, c in classes], [p for p, _ in classes], symbols]
    return pa.table(columns, schema=declared_schema(__file__))


def _first_matches(
    texts: list[str], meanings: Iterable[tuple[str, Meaning]]
) -> list[Meaning | None]:
    """The meaning of the first pattern that matches each text; None without one."""
    found: list[Meaning | None] = [None] * len(texts)
    left, places = pa.array(texts, pa.large_string()), np.arange(len(texts))
    for pattern, meaning in meanings:
        if not len(left):
            break
        matches = pc.match_substring_regex(left, pattern).to_numpy(zero_copy_only=False)
        if matches.any():
            for place in places[matches].tolist():
                found[place] = meaning
            left, places = left.filter(pa.array(~matches)), places[~matches]
    return found
