"""A good database, which a failing load must leave as it is."""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from drills.command import executed

RANK = 7  # of its only file; no seed has this rank


@cache
def old_database() -> Path:
    """Its path. The first call, which loads it, must come from the process that starts the rest."""
    event = {"ph": "X", "cat": "cpu_op", "name": "old", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    content = json.dumps({"traceEvents": [event]}).encode()
    return loaded_alone(f"rank{RANK}.json", content, "old.duckdb")


def loaded_alone(trace: str, content: bytes, database: str) -> Path:
    """A database of one trace, in a new folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="traceql-drill-made-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = folder / "work"
    place.mkdir()
    (place / trace).write_bytes(content)
    ended = executed(["load", trace, "-o", database], place)
    if ended.status != 0:
        raise RuntimeError(f"a plain load failed: {ended.err.decode()}")
    return place / database
