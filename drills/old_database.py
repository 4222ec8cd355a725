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
    folder = Path(tempfile.mkdtemp(prefix="traceql-drill-old-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = folder / "work"
    place.mkdir()
    event = {"ph": "X", "cat": "cpu_op", "name": "old", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    (place / f"rank{RANK}.json").write_text(json.dumps({"traceEvents": [event]}))
    ended = executed(["load", f"rank{RANK}.json", "-o", "old.duckdb"], place)
    if ended.status != 0:
        raise RuntimeError(f"a plain load failed: {ended.err.decode()}")
    return place / "old.duckdb"
