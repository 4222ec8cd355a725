"""Seeds of the drills: small cuts of bundled traces, an old database, and preloaded modules."""

import atexit
import gc
import gzip
import importlib
import json
import os
import pkgutil
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from drills.process import executed

Json = Any
Event = dict[str, Any]
EXAMPLES = Path(__file__).parent.parent / "examples"
_FILES = (
    "qwen3-8b-tp1-graph/rank0.pt.trace.json.gz",
    "qwen3-32b-tp4-graph-nccl/rank1.pt.trace.json.gz",
)
_EVENTS = 250


@cache
def seed_traces() -> list[Json]:
    """Cuts of about 300 events each: the names of threads, and an interval with GPU work."""
    return [_cut(json.loads(gzip.decompress((EXAMPLES / file).read_bytes()))) for file in _FILES]


def _cut(trace: Json) -> Json:
    named = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    timed = sorted((e for e in trace["traceEvents"] if "ts" in e), key=lambda event: event["ts"])
    first = len(timed) // 2
    about = {key: value for key, value in trace.items() if key != "traceEvents"}
    about.pop("distributedInfo", None)
    return about | {"traceEvents": named[:40] + timed[first : first + _EVENTS]}


_LIBRARIES = (
    "pandas", "numpy", "pyarrow.ipc", "pyarrow.parquet", "pyarrow.compute", "duckdb", "msgspec",
    "wasmtime", "rich.console", "rich.table", "filelock", "perfetto.trace_processor",
)  # fmt: skip


def import_all() -> None:
    """Imports only: a thread or an open database would not survive a fork."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for name in _LIBRARIES:
        importlib.import_module(name)
    import traceql

    for module in pkgutil.walk_packages(traceql.__path__, "traceql."):
        if not module.name.endswith(("__main__", ".jupyter", ".magic")):
            importlib.import_module(module.name)
    from traceql.database.loading.load import _prepare

    _prepare()
    seed_traces()
    gc.collect()
    gc.freeze()


OLD_RANK = 7  # of its only file; no seed has this rank


@cache
def old_database() -> Path:
    """Its path. The first call, which loads it, must come from the process that starts the rest."""
    event = {"ph": "X", "cat": "cpu_op", "name": "old", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    content = json.dumps({"traceEvents": [event]}).encode()
    return loaded_alone(f"rank{OLD_RANK}.json", content, "old.duckdb")


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
