"""Draws charts in a separate process, which may crash without harm; imports no Altair."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from traceql.errors import QueryInvalid, TraceqlError
from traceql.sql.query import Chart

_QUANTITIES = {  # channels; of other kinds of chart, x
    "curve": ("x", "y"),
    "delta": ("color",),
    "deviation": ("color",),
    "front": ("x", "y"),
    "heatmap": ("color",),
    "history": ("y",),
    "line": ("x", "y"),
    "point": ("x", "y"),
    "roofline": ("x", "y", "size"),
}
SUFFIXES = (".html", ".png", ".svg")
WORKER = (sys.executable, "-P", "-m", "traceql.result.chart.worker")
_NO_FONTS = str(Path(__file__).with_name("no_fonts.conf"))
_LAST_BREATH_S = 10


def can_be_drawn(table: pa.Table, chart: Chart) -> bool:
    """Whether there are values for the chart's quantities.

    Raises:
        QueryInvalid: the chart lacks a quantity, or names a column that the result does not have.
    """
    quantities = _QUANTITIES.get(chart.kind, ("x",))
    for channel in quantities:
        if channel not in chart.channels:
            raise QueryInvalid(f"the chart has no {channel}; correct the line @chart")
    for name in (name for names in chart.channels.values() for name in names.split(",")):
        if name not in table.column_names:
            raise QueryInvalid(f"the chart needs column '{name}'; correct the line @chart")
    return all(
        any(table[name].null_count < len(table) for name in chart.channels[channel].split(","))
        for channel in quantities
    )


@dataclass(frozen=True)
class Order:
    """What to draw.

    Attributes:
        width: of the whole picture, pixels.
        suffix: of the file that the picture is for, one of SUFFIXES.
        adapted: what else to do with the picture in the process that draws.
        tagged: whether the marks of one rank or phase say so in their `aria-label`.
    """

    table: pa.Table
    chart: Chart
    width: int
    suffix: str = ".svg"
    adapted: Callable[[bytes], bytes] | None = None
    tagged: bool = False


@dataclass(frozen=True)
class Specified:
    """What to draw, as a specification of Vega-Lite: the SVG of a chart of Altair."""

    spec: dict[str, Any]
    suffix: str = ".svg"
    adapted: None = None


class Drawing:
    """A process that draws one chart after another. After a crash, the next chart gets a new one.

    Close it, or leave that to the end of this process.
    """

    def __init__(self, *, for_pages: bool = False) -> None:
        """For pages, texts are measured with the fonts of the drawing library alone.

        That takes half the time: the library opens the file of an installed font for each letter.
        A browser shows the text of an SVG in its own fonts; a PNG needs those that are installed.
        """
        self._environment = {**os.environ, "FONTCONFIG_FILE": _NO_FONTS} if for_pages else None
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Lets the process import what it needs before the first order."""
        with self._lock:
            self._started()

    def draw(self, order: Order | Specified) -> bytes:
        """The picture as the contents of a file; raises TraceqlError if it cannot be drawn."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(order, process.stdin)
                process.stdin.flush()
                drawing, why = pickle.load(process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LAST_BREATH_S)
                self._kill(process)
                status = process.returncode
                cause = signal.Signals(-status).name if status < 0 else f"exit status {status}"
                raise TraceqlError(f"the drawing library crashed ({cause})") from None
            except BaseException:
                self._kill(process)  # the answer to this order must not be taken for the next
                raise
        if drawing is None:
            raise TraceqlError(why)
        return bytes(drawing)

    def close(self) -> None:
        """Ends the process, also while it draws for another thread."""
        if self._process:
            self._kill(self._process)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                pipe, none = subprocess.PIPE, subprocess.DEVNULL
                self._process = subprocess.Popen(
                    WORKER, stdin=pipe, stdout=pipe, stderr=none, env=self._environment
                )
            except OSError as error:
                raise TraceqlError(f"cannot start a process to draw: {error.strerror}") from None
        return self._process

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def notebook_drawing() -> Drawing:
    """The process that draws for this process, kept for the next chart."""
    return _drawing_of(os.getpid())


@cache
def _drawing_of(_process: int) -> Drawing:
    """One for each process: a fork must not use the pipes of its parent."""
    return Drawing()
