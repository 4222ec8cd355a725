"""Writes files so that they appear when they are complete, or not at all.

traceql has a writer of its own: the two packages share the run directory and no code.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Replaces `path` with a hidden draft beside it, which the block writes.

    After an error in the block the draft is removed, and `path` stays as it was. The draft has the
    suffix of `path`, because PyTorch compresses a trace only if its name ends in .gz.
    """
    draft = path.with_name(f".{path.name}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Replaces a JSON file."""
    with whole_file(path) as draft:
        draft.write_text(json.dumps(value, indent=1) + "\n")
