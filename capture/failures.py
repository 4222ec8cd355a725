"""Turns what the engine said when it failed into one line with the fix."""

import re
from collections.abc import Mapping
from pathlib import Path

_TAIL_BYTES = 400_000
# The first that is found in the failure or the log's end decides.
_KNOWN: Mapping[str, str] = {
    r"CUDA out of memory|OutOfMemoryError|No available memory for the cache blocks": (
        "out of GPU memory: raise --tp, lower --engine-arg max_model_len or --max-num-seqs, "
        "or take a smaller model"
    ),
    r"less than desired GPU memory utilization|Free memory on device": (
        "another program holds GPU memory: end it, or lower --engine-arg gpu_memory_utilization=..."
    ),
    r"Not enough memory for the KV cache|Available memory on node .* is less than|DefaultCPUAllocator: can't allocate": (
        "out of memory: lower VLLM_CPU_KVCACHE_SPACE (GiB), --engine-arg max_model_len or "
        "--max-num-seqs"
    ),
    r"larger than the maximum number of tokens that can be stored in KV cache|to serve at least one request": (
        "the KV cache is too small for one request: lower --engine-arg max_model_len"
    ),
    r"invalid device ordinal|World size .* is larger than the number of available GPUs": (
        "too few GPUs for tp x pp x dp: lower --tp, --pp or --dp"
    ),
    r"Address already in use|EADDRINUSE": (
        "a port is in use: unset VLLM_PORT and MASTER_PORT, or end the program that has it"
    ),
    r"No space left on device": "the disk is full: make room, or choose another place with -o",
    r"is not a local folder and is not a valid model identifier|Repository Not Found|LocalEntryNotFoundError|offline mode is enabled": (
        "the model cannot be found: give a folder that has it, or --dummy-weights with a "
        "built-in architecture"
    ),
    r"unexpected keyword argument '(\w+)'": "vLLM has no argument '{0}': check --engine-arg",
    r"attention heads.* must be divisible by tensor parallel size": (
        "the model's attention heads cannot be split by this --tp"
    ),
}


def explained(failure: str, log: Path) -> str:
    """One line: what went wrong, what to do where that is known, and where the log is."""
    said = f"{failure}\n{_tail(log)}"
    for pattern, fix in _KNOWN.items():
        if found := re.search(pattern, said):
            return f"{fix.format(*found.groups())} (log: {log})"
    return f"the engine failed: {_first_line(failure)} (log: {log})"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace")
