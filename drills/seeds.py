"""Seeds: small cuts of the bundled traces."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

Json = Any
Event = dict[str, Any]
EXAMPLES = Path(__file__).parent.parent / "examples"
_FILES = (
    "qwen3-8b-tp1-graph/rank0.pt.trace.json.gz",
    "qwen3-32b-tp4-graph-nccl/rank1.pt.trace.json.gz",
)
_EVENTS = 250


@cache
def traces() -> list[Json]:
    """Cuts of about 300 events each: the names of threads, and an interval with GPU work."""
    return [_cut(json.loads(gzip.decompress((EXAMPLES / file).read_bytes()))) for file in _FILES]


def _cut(trace: Json) -> Json:
    named = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    timed = sorted((e for e in trace["traceEvents"] if "ts" in e), key=lambda event: event["ts"])
    first = len(timed) // 2
    about = {key: value for key, value in trace.items() if key != "traceEvents"}
    about.pop("distributedInfo", None)
    return about | {"traceEvents": named[:40] + timed[first : first + _EVENTS]}
