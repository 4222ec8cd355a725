"""Numbers that stand for words, in small tables of a database."""

import json

from traceql.readers.formats.ascend_db.profile import Profile
from traceql.util.text import literal


def enumerated(profile: Profile, names: str, table: str, column: str) -> str:
    """SQL of the word for the number in a column, as JSON; of the number where it has none.

    Args:
        names: the table with a word (`name`) for each number (`id`).
    """
    number = profile.whole(table, column)
    if not profile.has(names, "id", "name") or number == "NULL":
        return number
    rows = profile.rows(f"SELECT id, name FROM {names} WHERE typeof(id) = 'integer'")
    cases = " ".join(
        f"WHEN {key} THEN {literal(json.dumps(name, ensure_ascii=False))}"
        for key, name in rows
        if isinstance(name, str)
    )
    return f"CASE {number} {cases} ELSE {number} END" if cases else number
