"""Reads steps.jsonl, which says what the engine scheduled in each recorded iteration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path

import msgspec
import pyarrow as pa

from traceql.input_file import content
from traceql.loading.run_document import Step

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Steps:
    """The lines that could be read, as rows, and what is wrong with the first of the others."""

    rows: pa.Table
    lines: int
    first_error: str | None


def read_steps(file: Path) -> Steps:
    """The steps in a file; a damaged line costs only itself, as does a step that comes again.

    Raises:
        Unusable: the file cannot be read.
    """
    text = content(file).removeprefix(_BYTE_ORDER_MARK)
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    steps: dict[tuple[int, int], Step] = {}
    first_error = None
    decode = msgspec.json.Decoder(Step).decode
    for number, line in lines:
        try:
            step = decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            first_error = first_error or f"line {number}: {error}"
            continue
        if steps.setdefault((step.rank, step.number), step) is not step:
            again = f"line {number}: step {step.number} of rank {step.rank} again"
            first_error = first_error or again
    return Steps(_table(steps.values()), len(lines), first_error)


def _table(steps: Iterable[Step]) -> pa.Table:
    found = list(steps)
    return pa.table(
        {
            "rank": pa.array([step.rank for step in found], pa.int64()),
            "number": pa.array([step.number for step in found], pa.int64()),
            "begin_unix_ns": pa.array([step.begin_unix_ns for step in found], pa.int64()),
            "requests": _maps([step.requests or {} for step in found]),
        }
    )


def _maps(maps: Sequence[dict[str, int]]) -> pa.MapArray:
    """A map for each dict."""
    offsets = list(accumulate(map(len, maps), initial=0))
    keys = list(chain.from_iterable(maps))
    values = list(chain.from_iterable(one.values() for one in maps))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(values, pa.int64())
    )
