"""Numbers that stand for words, in small tables of a database."""

import json

from traceql.reader.ascend_db.profile import Profile


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
        f"WHEN {key} THEN {_quoted(json.dumps(name, ensure_ascii=False))}"
        for key, name in rows
        if isinstance(name, str)
    )
    return f"CASE {number} {cases} ELSE {number} END" if cases else number


def _quoted(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"
