"""Turns what the engine said when it failed into one line with the fix."""

import re
from collections.abc import Sequence
from pathlib import Path

_TAIL_BYTES = 400_000
# The first that is found in the failure or the log's end decides: texts, and what to do.
_KNOWN: Sequence[tuple[tuple[str, ...], str]] = (
    (
        ("CUDA out of memory", "OutOfMemoryError", "No available memory for the cache blocks"),
        "out of GPU memory: raise --tp, lower --engine-arg max_model_len or --max-num-seqs, "
        "or take a smaller model",
    ),
    (
        ("died unexpectedly (exit code: -9)", "Failed core proc(s): {'EngineCore': -9"),
        "a worker was killed, most likely by the system for want of host memory: record less "
        "with --steps, without --stacks, or give fewer --prompts",
    ),
    (
        ("less than desired GPU memory utilization", "Free memory on device"),
        "another program holds GPU memory: end it, or lower --engine-arg "
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
        "master_port=..., or end the program that has it",
    ),
    (
        ("No space left on device",),
        "the disk is full: make room, or choose another place with -o",
    ),
    (
        (
            "is not a local folder and is not a valid model identifier",
            "Repository Not Found",
            "LocalEntryNotFoundError",
            "offline mode is enabled",
            "We couldn't connect to",
        ),
        "the model cannot be found: give a folder that has it, or --dummy-weights with a "
        "built-in architecture",
    ),
)
_ERROR_LINE = re.compile(r"(?:^|\s)((?:\w+\.)*\w+(?:Error|Exception): .+)$", re.MULTILINE)
# vLLM's own way to say that another process has said it before.
_HEARSAY = ("root cause above", "Engine core initialization failed", "See stack trace")


def explained(failure: str, log: Path) -> str:
    """One line: what went wrong, what to do where that is known, and where the log is."""
    said = f"{failure}\n{_tail(log)}"
    for texts, fix in _KNOWN:
        if any(text in said for text in texts):
            return f"{fix} (log: {log})"
    return f"the engine failed: {_root_cause(failure, log)} (log: {log})"


def _root_cause(failure: str, log: Path) -> str:
    """The failure's first line, or the log's last error where it only points there."""
    first = _first_line(failure)
    says_nothing = first.endswith(":")  # a type without a message
    if not says_nothing and not any(text in failure for text in _HEARSAY):
        return first
    errors = [e for e in _ERROR_LINE.findall(_tail(log)) if not any(h in e for h in _HEARSAY)]
    return errors[-1].strip() if errors else first


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace")
