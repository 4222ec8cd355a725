"""What vLLM logs of the memory of a GPU when its server starts."""

import re
from collections.abc import Mapping
from pathlib import Path

from traceql.util.input_file import Unusable, content

_GIB = 2**30
_SIZES = {
    "weights_bytes": re.compile(r"Model loading took (\d+(?:\.\d+)?) GiB", re.ASCII),
    "kv_cache_bytes": re.compile(r"Available KV cache memory: (\d+(?:\.\d+)?) GiB", re.ASCII),
    "graph_bytes": re.compile(
        r"Graph capturing finished in .*?took (-?\d+(?:\.\d+)?) GiB", re.ASCII
    ),
}
_TOKENS = re.compile(r"KV cache size: (\d[\d,]*) tokens", re.ASCII)
_LONGEST = 12  # characters of a number that a machine can have


def logged_memory(file: Path) -> Mapping[str, int | None]:
    """The columns of table start that a log tells; None where it does not."""
    try:
        text = content(file).decode(errors="replace")
    except Unusable:
        text = ""
    found: dict[str, int | None] = {}
    for name, pattern in _SIZES.items():
        sizes = [float(size) for size in pattern.findall(text) if len(size) <= _LONGEST]
        found[name] = round(max(sizes) * _GIB) if sizes else None
    logged = [size.replace(",", "") for size in _TOKENS.findall(text)]
    tokens = [int(size) for size in logged if len(size) <= _LONGEST]
    # Of several replicas each logs its own cache.
    found["kv_cache_tokens"] = sum(tokens) if tokens else None
    return found
