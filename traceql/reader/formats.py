"""Trace files by the ends of their names."""

from pathlib import Path

JSON_SUFFIXES = (".json", ".json.gz")
NATIVE_SUFFIXES = (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz")
SUFFIXES = JSON_SUFFIXES + NATIVE_SUFFIXES


def is_native(path: Path) -> bool:
    """True for Perfetto's own format; everything else is taken for JSON."""
    return path.name.endswith(NATIVE_SUFFIXES)
