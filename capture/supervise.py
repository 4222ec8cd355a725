"""Runs the engine in a process of its own, and ends all of it whatever happens."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from capture.errors import CaptureError, EngineFailed
from capture.failures import explained
from capture.plan import Plan
from capture.processes import (
    GRACE_S,
    adopt_orphans,
    end,
    remove_shared_memory,
    shared_memory,
)

_PROGRAM = (sys.executable, "-m", "capture.engine_process")
Done = Callable[[str, int, int], None]

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def run_engine(plan: Plan, log: Path, environment: dict[str, str], done: Done) -> dict[str, Any]:
    """Carries out a plan; the engine process's result.

    Args:
        log: gets everything that the engine prints.
        done: called with the phase, how many of it and of how many.

    Raises:
        EngineFailed: the message says why, what to do, and where the log is.
        KeyboardInterrupt: everything that was started has ended.
    """
    before = shared_memory()
    adopt_orphans()
    ours, theirs = os.pipe()
    with log.open("ab") as output, _terminated_as_interrupted():
        process = subprocess.Popen(
            _PROGRAM,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs,),
            env=environment,
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        grace_s = 0
        try:
            assert process.stdin is not None
            process.stdin.write(replace(plan, events_descriptor=theirs).to_json())
            process.stdin.close()
            with os.fdopen(ours) as events:
                last = _last_word(events, done)
            grace_s = GRACE_S
            return _result(last, log)
        finally:
            end(process, grace_s=grace_s)
            remove_shared_memory(before)


def _last_word(events: Any, done: Done) -> dict[str, Any]:
    """What the engine process says in the end; nothing where it died. Passes on its progress."""
    for line in events:
        event: dict[str, Any] = json.loads(line)
        if "phase" not in event:
            return event
        done(event["phase"], event["count"], event["total"])
    return {}


def _result(last: dict[str, Any], log: Path) -> dict[str, Any]:
    if "result" in last:
        result: dict[str, Any] = last["result"]
        return result
    if not last:
        raise EngineFailed(explained("its process ended without a word", log))
    if last["known"]:
        raise CaptureError(last["failure"])
    raise EngineFailed(explained(f"{last['type']}: {last['failure']}", log))


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, as a batch system sends it, and SIGHUP, as a lost terminal does, are Ctrl-C."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
