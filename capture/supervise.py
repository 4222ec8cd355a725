"""Runs the engine in its own process, ends it, and explains failures in one line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from capture.engine_options import Plan
from capture.errors import CaptureError, EngineFailed
from capture.processes import (
    GRACE_S,
    adopt_orphans,
    end_process_tree,
    remove_shared_memory,
    shared_memory,
    terminated_as_interrupted,
)

# Called with a phase, how many items of it are done, and how many there are (0 if unknown).
OnPhase = Callable[[str, int, int], None]


def ignore_phase(_phase: str, _count: int, _total: int) -> None:
    """An OnPhase for callers that do not show progress."""


_TAIL_BYTES = 400_000
# Texts to look for in the error and at the end of the log, and what to do. The first match counts.
_KNOWN: Sequence[tuple[tuple[str, ...], str]] = (
    (
        ("CUDA out of memory", "OutOfMemoryError", "No available memory for the cache blocks"),
        "out of GPU memory: raise --tp, lower --engine-arg max_model_len or --max-num-seqs, "
        "or use a smaller model",
    ),
    (
        ("died unexpectedly (exit code: -9)", "Failed core proc(s): {'EngineCore': -9"),
        "a worker was killed, most likely because the machine ran out of memory: record less "
        "with --steps, omit --stacks, or lower --prompts",
    ),
    (
        ("less than desired GPU memory utilization", "Free memory on device"),
        "another program uses the GPU's memory: end it, or lower --engine-arg "
        "gpu_memory_utilization=...",
    ),
    (
        ("DefaultCPUAllocator: can't allocate", "Not enough memory for the KV cache"),
        "out of memory: lower VLLM_CPU_KVCACHE_SPACE (GiB), --engine-arg max_model_len or "
        "--max-num-seqs",
    ),
    (
        ("stored in KV cache", "serve at least one request"),
        "the KV cache is too small for one request: lower --engine-arg max_model_len",
    ),
    (
        ("invalid device ordinal", "larger than the number of available GPUs"),
        "too few GPUs for tp x pp x dp: lower --tp, --pp or --dp",
    ),
    (
        ("Address already in use", "EADDRINUSE"),
        "a port is in use: choose another with VLLM_PORT, MASTER_PORT or --engine-arg "
        "master_port=..., or end the program that uses it",
    ),
    (
        ("No space left on device",),
        "the disk is full: free some space, or choose another folder with -o",
    ),
    (
        (
            "is not a local folder and is not a valid model identifier",
            "Repository Not Found",
            "LocalEntryNotFoundError",
            "offline mode is enabled",
            "We couldn't connect to",
        ),
        "the model cannot be found: give its folder, or use --dummy-weights with a built-in "
        "architecture",
    ),
)
_ERROR_LINE = re.compile(r"(?:^|\s)((?:\w+\.)*\w+(?:Error|Exception): .+)$", re.MULTILINE)
# With these texts vLLM refers to an error that another process printed earlier.
_REFERS_ELSEWHERE = ("root cause above", "Engine core initialization failed", "See stack trace")


def explained(failure: str, log: Path) -> str:
    """One line with the error of an engine, a fix if one is known, and the path of the log."""
    tail = log_tail(log)
    cause = next((line.strip() for line in failure.splitlines() if line.strip()), "no message")
    if cause.endswith(":") or any(text in failure for text in _REFERS_ELSEWHERE):
        cause = _last_error(tail) or cause
    fix = _known_fix(f"{failure}\n{tail}")
    return f"{fix or f'the engine failed: {cause}'} (log: {log})"


def explained_by_log(what: str, log: Path) -> str:
    """One line on a program that has ended: the last error in its log, or a known fix."""
    tail = log_tail(log)
    error = _last_error(tail)
    return f"{_known_fix(tail) or what + (f': {error}' if error else '')} (log: {log})"


def log_tail(log: Path) -> str:
    """The end of a log; empty if there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace")


def _known_fix(messages: str) -> str | None:
    return next((fix for texts, fix in _KNOWN if any(text in messages for text in texts)), None)


def _last_error(tail: str) -> str | None:
    """The last error that does not refer to another one."""
    errors = [e for e in _ERROR_LINE.findall(tail) if not any(h in e for h in _REFERS_ELSEWHERE)]
    return errors[-1].strip() if errors else None


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
    """Starts an engine process that runs a plan, and returns its result.

    Args:
        variables: environment variables of the engine process.
        launcher: the command line of a profiler that starts the engine process.
        write_s: how long it may take to write its report after the engine has ended.

    Raises:
        EngineFailed: the message says why it failed, what to do, and where the log is.
        KeyboardInterrupt: the run was interrupted; all its processes have ended.
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
                last: dict[str, Any] = {}  # stays empty if the process dies before its result
                for line in events:
                    last = json.loads(line)
                    if "phase" not in last:
                        break
                    on_phase(last["phase"], last["count"], last["total"])
                    last = {}
            grace_s = GRACE_S + write_s
            if "result" in last:
                result: dict[str, Any] = last["result"]
                return result
            if not last:
                raise EngineFailed(explained("its process ended without an error message", log))
            if last["known"]:
                raise CaptureError(last["failure"])
            raise EngineFailed(explained(f"{last['type']}: {last['failure']}", log))
        finally:
            end_process_tree(process, grace_s=grace_s)
            remove_shared_memory(before)
