"""Caches the databases of traces that were opened by path, without a named database."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from traceql import __version__
from traceql.loading.discovery import trace_files
from traceql.resources import PACKAGE, SCHEMA_VERSION

_RECIPE_SUFFIXES = {".csv", ".py", ".sql", ".toml"}


def cached_database(paths: Sequence[str | Path], trace_processor: str | Path | None) -> Path:
    """A database with exactly these traces; they are loaded unless a cached one is still valid.

    A cached database is valid while the path, size and modification time of every trace file are
    the same, and traceql is.
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
    """A hash of all files of the package: tables, rules, families and code."""
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
