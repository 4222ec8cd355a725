"""Turns the error messages of a failed engine into one line that says how to fix it."""

import re
from collections.abc import Sequence
from pathlib import Path

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
# With these texts vLLM refers to an error that another process printed before.
_REFERS_ELSEWHERE = ("root cause above", "Engine core initialization failed", "See stack trace")


def explained(failure: str, log: Path) -> str:
    """One line that says what went wrong, how to fix it if that is known, and where the log is."""
    tail = log_tail(log)
    fix = _known_fix(f"{failure}\n{tail}")
    return f"{fix or f'the engine failed: {_root_cause(failure, tail)}'} (log: {log})"


def explained_by_log(what: str, log: Path) -> str:
    """One line on a program that has ended: the last error in its log, and how to fix it."""
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


def _root_cause(failure: str, tail: str) -> str:
    """The first line of the failure, or the last error in the log if the failure refers to it."""
    first = _first_line(failure)
    only_a_type = first.endswith(":")
    if not only_a_type and not any(text in failure for text in _REFERS_ELSEWHERE):
        return first
    return _last_error(tail) or first


def _last_error(tail: str) -> str | None:
    """The last error that does not refer to another one."""
    errors = [e for e in _ERROR_LINE.findall(tail) if not any(h in e for h in _REFERS_ELSEWHERE)]
    return errors[-1].strip() if errors else None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
