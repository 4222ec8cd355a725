"""Runs each case in a process forked from this one, which has imported everything already.

Importing what a load needs takes longer than loading a small file.
"""

import os
import pickle
import selectors
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drills.kind import Case
from drills.outcome import Outcome, Verdict

_LONGEST_S = 300  # for a case with all its commands


@dataclass(frozen=True)
class _Running:
    case: Case
    process: int
    folder: Path
    until: float


def outcomes(
    cases: Iterable[Case], run: Callable[[Case, Path], Outcome], *, jobs: int
) -> Iterator[tuple[Case, Outcome]]:
    """Each case with its outcome, as they end; `jobs` run at once, each in a temporary folder."""
    left = iter(cases)
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < jobs and (case := next(left, None)) is not None:
                reading, running = _started(case, run)
                selector.register(reading, selectors.EVENT_READ, running)
            if not selector.get_map():
                return
            yield from _ended(selector)


def _started(case: Case, run: Callable[[Case, Path], Outcome]) -> tuple[int, _Running]:
    folder = Path(tempfile.mkdtemp(prefix="traceql-drill-"))
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        os.setpgid(0, 0)
        with os.fdopen(writing, "wb") as answer:
            pickle.dump(_outcome(case, run, folder), answer)
        os._exit(0)
    os.close(writing)
    return reading, _Running(case, process, folder, time.monotonic() + _LONGEST_S)


def _outcome(case: Case, run: Callable[[Case, Path], Outcome], folder: Path) -> Outcome:
    try:
        return run(case, folder)
    except BaseException:
        return Outcome(Verdict.WRONG, f"the drill itself failed: {traceback.format_exc()}")


def _ended(selector: selectors.BaseSelector) -> Iterator[tuple[Case, Outcome]]:
    for key, _ in selector.select(timeout=1):
        with os.fdopen(key.fd, "rb", closefd=False) as answer:
            content = answer.read()
        died = Outcome(Verdict.WRONG, "the process of the drill died")
        yield _freed(selector, key, pickle.loads(content) if content else died)
    for key in list(selector.get_map().values()):
        if time.monotonic() > key.data.until:
            os.killpg(key.data.process, signal.SIGKILL)
            yield _freed(selector, key, Outcome(Verdict.HANG, f"longer than {_LONGEST_S} s"))


def _freed(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, outcome: Outcome
) -> tuple[Case, Outcome]:
    running: _Running = key.data
    selector.unregister(key.fd)
    os.close(key.fd)
    os.waitpid(running.process, 0)
    with suppress(ProcessLookupError):
        os.killpg(running.process, signal.SIGKILL)  # what it has left running
    shutil.rmtree(running.folder, ignore_errors=True)
    return running.case, outcome
