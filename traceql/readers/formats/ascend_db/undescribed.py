"""Compute tasks that table COMPUTE_TASK_INFO does not describe: their names are unknown.

Among tasks of the types that compute there are also rows that enclose others, which must not count:
rows around the parts of one task, and around an operation of communication.
"""

from traceql.readers.dialects.ascend.vocabulary import IS_COMPUTE_TASK
from traceql.readers.formats.ascend_db.profile import Profile

UNDESCRIBED = "undescribed"  # a temporary table, of the numbers of rows of TASK (task_row)
_TASK, _COMPUTE = "TASK", "COMPUTE_TASK_INFO"
_PART, _OPERATION = "COMMUNICATION_TASK_INFO", "COMMUNICATION_OP"
_NO_CONTEXT = 4_294_967_295  # of a task that is no part of another
_PLACE = ("deviceId", "streamId", "taskId")


def find_undescribed(profile: Profile) -> int:
    """Finds them, once, for the table UNDESCRIBED, and counts them."""
    rows = "SELECT 0 AS task_row WHERE FALSE"
    if profile.has(_TASK, "startNs", "endNs", "taskType"):
        rows = _without_enclosing(profile, _candidates(profile))
    profile.rows(f"CREATE TEMP TABLE {UNDESCRIBED} AS {rows}")
    return int(profile.value(f"SELECT COUNT(*) FROM {UNDESCRIBED}"))


def _candidates(profile: Profile) -> str:
    """SQL of the rows of types that compute which no other table describes."""
    others = ((_COMPUTE, "globalTaskId"), (_PART, "globalTaskId"), (_OPERATION, "connectionId"))
    conditions = [
        f"taskType IN ({', '.join(map(str, profile.ids_of(IS_COMPUTE_TASK)))})",
        *(
            f"({key} IS NULL OR {key} NOT IN (SELECT {key} FROM {table} WHERE {key} IS NOT NULL))"
            for table, key in others
            if profile.has(table, key) and profile.has(_TASK, key)
        ),
    ]
    return f"SELECT rowid AS task_row FROM {_TASK} WHERE {' AND '.join(conditions)}"


def _without_enclosing(profile: Profile, candidates: str) -> str:
    """SQL of those candidates around no part of the same task."""
    has_parts = profile.has(_TASK, "contextId", *_PLACE)
    if not has_parts or not profile.rows(f"{candidates} LIMIT 1"):
        return candidates
    # What encloses others comes right before them. This takes one sort, where a join takes the
    # index of starts, and the square of the time.
    return (
        f"{candidates} EXCEPT SELECT task_row FROM ("
        "SELECT rowid AS task_row, contextId, endNs, "
        "LEAD(contextId) OVER same_task AS next_context, LEAD(startNs) OVER same_task AS next_ns "
        f"FROM {_TASK} WINDOW same_task AS ("
        f"PARTITION BY {', '.join(_PLACE)} ORDER BY startNs, endNs DESC, contextId DESC)) "
        f"WHERE contextId = {_NO_CONTEXT} AND next_context <> {_NO_CONTEXT} AND next_ns < endNs"
    )
