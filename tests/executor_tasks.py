"""Functions that executors run in tests; other processes import them from here."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from traceql.errors import LakeError


def note(file: Path, text: str) -> int:
    """Appends to a file that says what ran."""
    with file.open("a") as out:
        out.write(f"{text}\n")
    return os.getpid()


def double(number: int) -> int:
    return 2 * number


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def refuse() -> None:
    raise LakeError("no such thing")


def break_down() -> None:
    raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")  # cannot be made from its arguments


def die(notes: Path, times: int = 1_000) -> str:
    """Is killed so many times, and then returns."""
    note(notes, str(os.getpid()))
    if len(notes.read_text().splitlines()) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def tidy_up(notes: Path) -> None:
    """Runs until it is told to end, and says so."""
    note(notes, "begun")
    try:
        time.sleep(60)
    except SystemExit:
        note(notes, "tidied up")
        sys.exit(1)


def note_and_wait(file: Path, text: str, until: Path) -> None:
    """Runs until a file is there."""
    note(file, text)
    wait_until(until.exists)


def wait_until(happened: Callable[[], bool], timeout_s: float = 60) -> None:
    last = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < last, "it does not happen"
        time.sleep(0.05)


def ray_node() -> str:
    """The id of the node that runs this."""
    import ray

    return str(ray.get_runtime_context().get_node_id())
