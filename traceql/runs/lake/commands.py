"""The commands that add runs one by one, for a batch system to run."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from traceql.errors import TraceqlError
from traceql.runs.lake.places import anywhere


def commands(sources: Sequence[Path], lake: str, *options: str) -> list[str]:
    """A line of shell for each run, which does nothing if the lake has the run.

    Args:
        options: of `traceql lake add`, which each command gets.

    Raises:
        TraceqlError: a source does not exist, or its path does not fit into a line.
    """
    paths = dict.fromkeys(path.absolute() for path in sources)
    return [_command(path, anywhere(lake), options) for path in paths]


def _command(path: Path, lake: str, options: Sequence[str]) -> str:
    if not path.exists():
        raise TraceqlError(f"{path}: no such file or folder")
    line = shlex.join(["traceql", "lake", "add", str(path), "--lake", lake, *options])
    if len(line.splitlines()) > 1:
        raise TraceqlError(f"{str(path)!r}: the path has a line break; rename it")
    return line
