# One row per distinct way in which the events of a rank describe a communicator: the communicator that is meant.
# @kind   scratch
# @scope  run
# @needs  operation, rank_position, trace
# @empty_unless operation
# @column description_id     BIGINT    Number of the description; the same as in operation.
# @column communicator_id  BIGINT    Number of the communicator, from 0.
# @column ranks            BIGINT[]  Its ranks, as far as they are loaded or the event names them.
# @column group_size       BIGINT    Number of its ranks, loaded or not; NULL if unknown.
# @column is_directed      BOOLEAN   Whether data goes one way only, from the first rank to the second.

"""Finds the communicator of each distinct description once, not of each operation."""

import duckdb
import pyarrow as pa

from traceql.analysis.collectives.layout import (
    DescribedOperation,
    Group,
    Layout,
    ProcessGroups,
    RankPosition,
    group_of,
)
from traceql.readers.dialects.registry import loaded_facts
from traceql.sql.definition import declared_schema

_DESCRIBED = """
    -- Ranks whose layers of experts end with an all-reduce.
    WITH reduced AS (
        SELECT rank, layer FROM operation
        WHERE role IN ('dispatch', 'combine') AND layer IS NOT NULL
        INTERSECT
        SELECT rank, layer FROM operation WHERE role = 'mlp_allreduce'
    )
    SELECT DISTINCT
        description_id, rank, op, role, group_name, group_ranks, group_size, source, destination,
        rank IN (SELECT rank FROM reduced) AS is_reduced
    FROM operation
    ORDER BY description_id
"""
_FILES = "SELECT rank, dialect, metadata FROM trace WHERE rank IS NOT NULL"
_PLACES = (
    "SELECT rank, tp, pp, dp, tp_size, pp_size, dp_size, source, replicas_apart "
    "FROM rank_position ORDER BY rank"
)


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    layout = _layout(con)
    files = con.execute(_FILES).fetchall()
    descriptions = con.execute(_DESCRIBED).fetchall()
    process_groups = ProcessGroups(
        {rank: loaded_facts(dialect, metadata) for rank, dialect, metadata in files},
        {(rank, group_name) for _, rank, _, _, group_name, *_ in descriptions},
    )
    numbers: dict[Group, int] = {}
    listed = []
    for description_id, *described in descriptions:
        group = group_of(DescribedOperation(*described), layout, process_groups)
        listed.append(
            {
                "description_id": description_id,
                "communicator_id": numbers.setdefault(group, len(numbers)),
                "ranks": group.ranks,
                "group_size": group.size,
                "is_directed": group.is_directed,
            }
        )
    return pa.Table.from_pylist(listed, declared_schema(__file__))


def _layout(con: duckdb.DuckDBPyConnection) -> Layout:
    found = con.execute(_PLACES).fetchall()
    places = {rank: RankPosition(tp=tp, pp=pp, dp=dp) for rank, tp, pp, dp, *_ in found}
    tp, pp, dp, source, apart = found[0][4:] if found else (1, 1, 1, "", False)
    return Layout(places, tp, pp, dp, source, apart=apart)
