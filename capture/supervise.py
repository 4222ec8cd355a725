"""Runs the engine in its own process and ends all of its processes, whatever happens."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from capture.errors import CaptureError, EngineFailed
from capture.failures import explained
from capture.phases import OnPhase
from capture.plan import Plan
from capture.processes import (
    GRACE_S,
    adopt_orphans,
    end_process_tree,
    remove_shared_memory,
    shared_memory,
    terminated_as_interrupted,
)

_PROGRAM = (sys.executable, "-m", "capture.engine_process")


def run_engine(
    plan: Plan,
    log: Path,
    variables: dict[str, str],
    on_phase: OnPhase,
    *,
    launcher: Sequence[str] = (),
    write_s: float = 0,
) -> dict[str, Any]:
    """Starts an engine process that carries out a plan, and returns its result.

    Args:
        log: the file for everything that the engine prints.
        variables: environment variables of the engine process.
        launcher: the words of a profiler that starts the engine process.
        write_s: how long it may take to write its report after the engine has ended.

    Raises:
        EngineFailed: the message says why it failed, what to do, and where the log is.
        KeyboardInterrupt: the run was interrupted; everything that it started has ended.
    """
    before = shared_memory()
    adopt_orphans()
    ours, theirs = os.pipe()
    with log.open("ab") as output, terminated_as_interrupted():
        process = subprocess.Popen(
            [*launcher, *_PROGRAM],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs,),
            env=variables,
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        grace_s: float = 0
        try:
            assert process.stdin is not None
            process.stdin.write(replace(plan, events_descriptor=theirs).to_json())
            process.stdin.close()
            with os.fdopen(ours) as events:
                last = _last_event(events, on_phase)
            grace_s = GRACE_S + write_s
            return _engine_result(last, log)
        finally:
            end_process_tree(process, grace_s=grace_s)
            remove_shared_memory(before)


def _last_event(events: Any, on_phase: OnPhase) -> dict[str, Any]:
    """Reports progress until the last event, and returns that; {} if the process died before."""
    for line in events:
        event: dict[str, Any] = json.loads(line)
        if "phase" not in event:
            return event
        on_phase(event["phase"], event["count"], event["total"])
    return {}


def _engine_result(last: dict[str, Any], log: Path) -> dict[str, Any]:
    if "result" in last:
        result: dict[str, Any] = last["result"]
        return result
    if not last:
        raise EngineFailed(explained("its process ended without an error message", log))
    if last["known"]:
        raise CaptureError(last["failure"])
    raise EngineFailed(explained(f"{last['type']}: {last['failure']}", log))
