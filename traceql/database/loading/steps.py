"""Reads steps.jsonl, which says what the engine scheduled in each recorded iteration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from traceql.database.loading.run_document import Step, Tokens
from traceql.util.input_file import content

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOKENS = pa.map_(pa.string(), pa.int64())
_READ_STEP = msgspec.json.Decoder(Step).decode
_READ_COMPUTED = msgspec.json.Decoder(Tokens | None).decode


@dataclass(frozen=True)
class Steps:
    """The lines that could be read, as rows, and what is wrong with the first of the others.

    Attributes:
        whole: the number of lines with nothing wrong in them.
    """

    rows: pa.Table
    lines: int
    whole: int
    first_error: str | None


@dataclass(frozen=True)
class _Line:
    """What could be read of a line, and what is wrong with it."""

    step: Step | None
    computed: Tokens | None = None
    error: str | None = None


def read_steps(file: Path) -> Steps:
    """The steps in a file; a damaged line costs only itself, as does a step that comes again.

    Of a line in which only the computed tokens are wrong, the rest is kept.

    Raises:
        Unusable: the file cannot be read.
    """
    text = content(file).removeprefix(_BYTE_ORDER_MARK)
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    found: dict[tuple[int, int], _Line] = {}
    errors = []
    for number, text_line in lines:
        line = _line(text_line)
        error = line.error
        if (step := line.step) and found.setdefault((step.rank, step.number), line) is not line:
            error = f"step {step.number} of rank {step.rank} again"
        if error:
            errors.append(f"line {number}: {error}")
    whole = len(lines) - len(errors)
    return Steps(_table(found.values()), len(lines), whole, next(iter(errors), None))


def _line(text: bytes) -> _Line:
    try:
        step = _READ_STEP(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _Line(None, error=str(error))
    try:
        return _Line(step, _READ_COMPUTED(step.computed))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _Line(step, error=f"computed: {error}")


def _table(lines: Iterable[_Line]) -> pa.Table:
    found = [(line.step, line.computed) for line in lines if line.step]
    return pa.table(
        {
            "rank": pa.array([step.rank for step, _ in found], pa.int64()),
            "number": pa.array([step.number for step, _ in found], pa.int64()),
            "begin_unix_ns": pa.array([step.begin_unix_ns for step, _ in found], pa.int64()),
            "requests": _maps([step.requests or {} for step, _ in found]),
            "computed": _maps([computed for _, computed in found]),
        }
    )


def _maps(maps: Sequence[Tokens | None]) -> pa.MapArray:
    """A map for each dict, and null for None."""
    return pa.array([None if one is None else list(one.items()) for one in maps], _TOKENS)
