"""What vLLM logs of the memory of a GPU when its server starts."""

import re
from collections.abc import Mapping
from pathlib import Path

_GIB = 2**30
_SIZES = {
    "weights_bytes": re.compile(r"Model loading took ([\d.]+) GiB"),
    "kv_cache_bytes": re.compile(r"Available KV cache memory: ([\d.]+) GiB"),
    "graph_bytes": re.compile(r"Graph capturing finished in .*?took (-?[\d.]+) GiB"),
}
_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")


def logged_memory(file: Path) -> Mapping[str, int | None]:
    """The columns of table start that a log tells; None where it does not."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found: dict[str, int | None] = {}
    for name, pattern in _SIZES.items():
        sizes = [float(size) for size in pattern.findall(text)]
        found[name] = round(max(sizes) * _GIB) if sizes else None
    tokens = [int(size.replace(",", "")) for size in _TOKENS.findall(text)]
    # Of several replicas each logs its own cache.
    found["kv_cache_tokens"] = sum(tokens) if tokens else None
    return found
