"""Commands that write, where they cannot: a full disk, and a folder that may not be written.

The full disk is a limit on the size of each file (RLIMIT_FSIZE), which fails in the same place and
needs no rights. The folder is read-only; for root, to whom no folder is, it is /sys.
"""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from drills.command import executed
from drills.commands import COMMANDS, fill, loaded_database
from drills.judging import judged, state
from drills.kind import Case, Kind
from drills.outcome import Outcome

_LIMITS = (
    4_000,
    150_000,
    400_000,
    1_000_000,
    2_000_000,
    8_000_000,
    None,
)  # bytes; None: a read-only folder
_CASES = [(name, limit) for name in COMMANDS for limit in _LIMITS]


def run(case: Case, folder: Path) -> Outcome:
    name, limit = _CASES[case.number]
    writing = COMMANDS[name]
    place = folder / "work"
    place.mkdir()
    fill(place, writing)
    before = state(place)
    folder.chmod(0o755)
    place.chmod(0o555)
    arguments = list(writing.arguments)
    if limit is None and os.geteuid() == 0:
        arguments[-1] = f"/sys/{writing.target}"
    prepare = _limited(limit) if limit else lambda: None
    ended = executed(arguments, place, prepare=prepare)
    place.chmod(0o755)
    target = place / writing.target
    files = (path.relative_to(place) for path in target.rglob("*"))
    written = [writing.target, *map(str, files)]
    return judged(
        ended, place, before, written=written, disagreement=lambda: writing.wrong(target)
    )  # fmt: skip


def _limited(size: int) -> Callable[[], None]:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


KIND = Kind("no space", lambda _: len(_CASES), run, prepare=loaded_database)
