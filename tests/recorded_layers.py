"""The kernels of a recording: as loaded without its modules, and as its modules have them."""

import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from needed_tables import only_tables
from recordings import Place, Recording, load_without_modules
from shared_files import shared_file

import traceql
from traceql.analysis.layers.attribution import KernelStream
from traceql.analysis.layers.kernel_text import Stream, folded, letter, part

_part = cache(part)  # a recording has few names
_KERNELS = """
    SELECT
        device, stream, ts, dur, name, symbol, COALESCE(step_id, -1) AS step_id,
        pass, layer, role, layer_source
    FROM kernel ORDER BY device, stream, ts, id
"""


class Kernel(NamedTuple):
    """A row of table `kernel`."""

    device: int
    stream: int
    ts: int
    dur: int
    name: str
    symbol: str
    step_id: int
    pass_number: int | None
    layer: int | None
    role: str | None
    layer_source: str | None

    @property
    def place(self) -> Place:
        return self.device, self.stream, self.ts, self.name


def loaded(recording: Recording, *, configured: bool) -> Path:
    """A database of the recording without its modules, with or without the configuration.

    With the configuration, it has all tables, otherwise those that tell of layers.
    """

    def make(path: Path) -> None:
        tables = nullcontext() if configured else only_tables("kernel", "rank_model")
        with tables, TemporaryDirectory(dir=path.parent) as folder:
            made = load_without_modules(recording, Path(folder), configured=configured)
            shutil.move(made, path)

    known = "configured" if configured else "alone"
    return shared_file(f"{recording}-{known}.duckdb", make)


@cache
def kernels(recording: Recording, *, configured: bool = False) -> tuple[Kernel, ...]:
    """All GPU activities, stream by stream."""
    with traceql.open(loaded(recording, configured=configured)) as trace:
        return tuple(Kernel(*row.values()) for row in trace.select(_KERNELS))


@cache
def model_of(recording: Recording, *, configured: bool = False) -> tuple[str | None, int]:
    """Family and number of layers; 0 layers if no model is recognized."""
    with traceql.open(loaded(recording, configured=configured)) as trace:
        rows = trace.select("SELECT family, layers FROM rank_model").rows()
    return (rows[0]["family"], rows[0]["layers"]) if rows else (None, 0)


@cache
def streams(recording: Recording) -> tuple[KernelStream, ...]:
    """The streams of the recording, by their numbers; the ids are places in `kernels()`."""
    found = kernels(recording)
    numbers = sorted({one.stream for one in found})
    return tuple(
        _stream([(n, one) for n, one in enumerate(found) if one.stream == number])
        for number in numbers
    )


def _stream(found: Sequence[tuple[int, Kernel]]) -> KernelStream:
    rows = [one for _, one in found]
    ts = np.array([one.ts for one in rows], np.int64)
    return KernelStream(
        0,
        rows[0].device,
        rows[0].stream,
        np.array([n for n, _ in found], np.int64),
        ts,
        ts + np.array([one.dur for one in rows], np.int64),
        Stream(folded_letters(rows), np.array([one.step_id for one in rows], np.int64)),
    )


def folded_letters(found: Sequence[Kernel], unknown: str | None = None) -> str:
    """The letters of kernels, as layers are found in them.

    Args:
        unknown: the name of kernels that no rule classifies, as if they were new.
    """
    symbols = [letter("unclassified") if one.name == unknown else one.symbol for one in found]
    return folded_symbols(symbols, [one.name for one in found])


def folded_symbols(symbols: Sequence[str], names: Sequence[str]) -> str:
    """The letters of kernels with these symbols and names, as layers are found in them."""
    elementwise = letter("elementwise")
    parts = [
        _part(name) if symbol == elementwise else "-"
        for name, symbol in zip(names, symbols, strict=True)
    ]
    return folded("".join(symbols), "".join(parts))


@cache
def main_kernels(recording: Recording) -> tuple[Kernel, ...]:
    """The kernels of the stream that most kernels run on."""
    found = kernels(recording)
    (most, _), *_ = Counter(one.stream for one in found).most_common(1)
    return tuple(one for one in found if one.stream == most)


@cache
def main_stream(recording: Recording) -> Stream:
    (number,) = {one.stream for one in main_kernels(recording)}
    return next(one.stream for one in streams(recording) if one.number == number)
