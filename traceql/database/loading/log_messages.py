"""Reads log.txt of a run directory: the lines in which vLLM or NCCL names a decision."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceql.util.files import read_bytes

# A line with one of these names a decision that a cause of slow serving can be read from.
_DECISIONS = (
    b"attention backend", b"out of potential backends", b"Using FlashAttention version",
    b"MoE config", b"for MoE layer", b"sync scheduling", b"synchronous scheduling",
    b"Enforce eager set", b"Cudagraph is disabled", b"cudagraph_mode=",
    b" during inference: ", b"torch.compile took", b"ustom allreduce",
    b"ustom all-reduce", b"ustom collectives", b"FlashInfer top-p/top-k", b"GPU KV cache size",
    b"Maximum concurrency for", b"preempted", b"GC took",
    b" via SHM", b" via P2P", b" via NET", b" via direct", b"set by environment",  # NCCL
)  # fmt: skip
_LINE = re.compile(
    r"(?:\((?P<process>[^ )]+)(?: pid=\d+)?\) )?"
    r"(?:[A-Z]+ (?P<time>\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? \[[^\]]*\] )?(?P<text>.*)",
    re.DOTALL,
)
_STAMP = re.compile(rb" (\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? \[")
_SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("unix_ns", pa.int64()),
        ("process", pa.string()),
        ("text", pa.string()),
    ]
)
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_MOST_LINES, _MOST_CHARACTERS = 2000, 1000  # of messages that repeat in each step
_QUARTER_S = 15 * 60  # time zones differ by whole quarters of an hour


def read_log(file: Path, start_unix_ns: Any) -> pa.Table:
    """The messages in a log, without the column `run`.

    vLLM prints neither the year nor the time zone; they follow from the start of the run, of which
    the first line with a time is at most some minutes away.

    Raises:
        Unusable: the file cannot be read.
    """
    content = read_bytes(file)
    zone_s = _zone_s(content, start_unix_ns)
    lines = enumerate(content.split(b"\n"), start=1)
    decisions = (one for one in lines if any(text in one[1] for text in _DECISIONS))
    rows = []
    for number, line in islice(decisions, _MOST_LINES):
        found = _LINE.match(_STYLE.sub("", line.decode(errors="replace")).strip())
        assert found
        printed_s, unix_ns = _printed_s(found["time"], start_unix_ns), None
        if printed_s is not None and zone_s is not None:
            unix_ns = (printed_s - zone_s) * 1_000_000_000
        rows.append((number, unix_ns, found["process"], found["text"][:_MOST_CHARACTERS]))
    columns = zip(*rows, strict=True) if rows else [()] * len(_SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], _SCHEMA)


def _zone_s(content: bytes, start_unix_ns: Any) -> int | None:
    """How much the clock of the log is ahead of UTC, seconds; None if nothing says so."""
    stamp = _STAMP.search(content)
    printed_s = _printed_s(stamp[1].decode(), start_unix_ns) if stamp else None
    if printed_s is None:
        return None
    lag_s: float = printed_s - start_unix_ns / 1e9
    return round(lag_s / _QUARTER_S) * _QUARTER_S


def _printed_s(text: str | None, start_unix_ns: Any) -> int | None:
    """A printed time as if it were UTC, in the year in which it is nearest to the start."""
    if text is None or not isinstance(start_unix_ns, int) or not 0 < start_unix_ns < 2**62:
        return None
    start_s = start_unix_ns / 1e9
    year = datetime.fromtimestamp(start_s, UTC).year
    possible = []
    for one in (year - 1, year, year + 1):
        with suppress(ValueError):  # no time, or 29 February of another year
            time = datetime.strptime(f"{one}-{text}", "%Y-%m-%d %H:%M:%S")
            possible.append(int(time.replace(tzinfo=UTC).timestamp()))
    return min(possible, key=lambda time: abs(time - start_s), default=None)
