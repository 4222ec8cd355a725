"""SQL cells: `%load_ext traceql`, then

    %%traceql run.duckdb
    SELECT phase, COUNT(*) FROM step GROUP BY ALL

The first line names a database, a trace file, or a variable that holds a `Run`. Without a name,
the cell uses the same database as the previous cell. `-o NAME` puts the result into a variable.
"""

import re
import shlex
from typing import Any

from traceql.database.database import Database, open_database
from traceql.errors import TraceqlError
from traceql.result import Result
from traceql.sql.registry import public_tables

_NAME = "traceql"
_WORD = re.compile(r"[\w.]*$")


def register(shell: Any) -> None:
    """Adds the cell magic and its completion to an IPython shell."""
    from IPython.core.completer import context_matcher

    cells = _Cells(shell)
    shell.register_magic_function(cells.run, magic_kind="cell", magic_name=_NAME)

    @context_matcher()  # type: ignore[untyped-decorator]
    def match(context: Any) -> dict[str, Any]:
        from IPython.core.completer import SimpleCompletion

        names = cells.completions(context.full_text, context.text_until_cursor)
        return {"completions": [SimpleCompletion(name, type="table") for name in names]}

    shell.Completer.custom_matchers.append(match)


class _Cells:
    """The SQL cells of one shell, which share the database that they query."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._database: Database | None = None
        self._names: list[str] = []

    def run(self, line: str, cell: str) -> Result | None:
        words, variable = _arguments(line)
        if words:
            held = self._shell.user_ns.get(words[0])
            self._database = held if isinstance(held, Database) else open_database(words[0])
            tables = public_tables()
            columns = {f"{name}.{c.name}" for name, one in tables.items() for c in one.columns}
            self._names = sorted({*tables, *columns})
        if self._database is None:
            raise TraceqlError("name a database first, e.g. %%traceql run.duckdb")
        result = self._database.sql(cell)
        if variable is None:
            return result
        self._shell.user_ns[variable] = result
        return None

    def completions(self, cell: str, before: str) -> list[str]:
        """Names of tables, or after a dot the columns of the table before it."""
        if not cell.startswith(f"%%{_NAME}"):
            return []
        found = _WORD.search(before)
        word = found[0].lower() if found else ""
        has_dot = "." in word
        return [name for name in self._names if name.startswith(word) and ("." in name) == has_dot]


def _arguments(line: str) -> tuple[list[str], str | None]:
    """The words of the first line after the magic's name, and the variable after -o."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise TraceqlError(f"cannot read the first line of the cell: {error}") from None
    if "-o" not in words:
        return words, None
    at = words.index("-o")
    if len(words) == at + 1:
        raise TraceqlError("-o needs a name, e.g. %%traceql run.duckdb -o rows")
    return words[:at] + words[at + 2 :], words[at + 1]
