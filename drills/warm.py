"""Imports all that the cases need, before the first of them is forked."""

import gc
import importlib
import os
import pkgutil

from drills import seeds

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
    seeds.traces()
    gc.collect()
    gc.freeze()
