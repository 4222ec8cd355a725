"""Finds a run by its name."""

from collections.abc import Sequence

from traceql.errors import RunNotFound
from traceql.runs.lake.manifest import Entry
from traceql.util.suggestions import suggestion


def named_run(found: Sequence[Entry], run: str) -> Entry:
    """The run of a name.

    Raises:
        RunNotFound: there is none; the message suggests names that are close.
    """
    names = {one.run: one for one in found}
    if run in names:
        return names[run]
    hint = suggestion(run, names) or "list them with traceql lake run fleet.runs"
    raise RunNotFound(f"no run '{run}'; {hint}")
