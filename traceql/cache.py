"""Databases of traces that were opened without naming one."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from traceql.loading.discovery import trace_files
from traceql.resources import PACKAGE, SCHEMA_VERSION
from traceql.version import __version__

_RECIPE_SUFFIXES = {".csv", ".py", ".sql", ".toml"}


def cached_database(paths: Sequence[str | Path], trace_processor: str | Path | None) -> Path:
    """A database with exactly these traces, loaded now unless an earlier one still holds.

    It holds while path, size and modification time of every file are the same, and what makes the
    database is.
    """
    files = trace_files([Path(p) for p in paths])
    stats = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    made_of = repr((SCHEMA_VERSION, __version__, _recipe(), stats))
    key = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    database = _folder() / f"{key}.duckdb"
    if not database.exists():
        from traceql.loading.load import load

        load(files, database, trace_processor=trace_processor)
    return database


def _recipe() -> str:
    """Changes with every file of the package: tables, rules, families, and the code that reads."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.*")):
        if file.suffix in _RECIPE_SUFFIXES:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "traceql" / "databases"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
