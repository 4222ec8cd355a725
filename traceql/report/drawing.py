"""Draws the charts of a page while its queries run."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import IO

from traceql.errors import TraceqlError
from traceql.report.facts import Answer

WIDE, NARROW = 640, 328  # pixels: for half of a large screen, and for a phone


class Drawing:
    """Draws charts of one width in a separate process, in the order in which they are asked for."""

    def __init__(self, width: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "traceql.report.worker", str(width)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = ThreadPoolExecutor(max_workers=1)
        self._drawn = self._reader.submit(_all, self._process.stdout)

    def ask(self, answer: Answer) -> None:
        chart = answer.query.head.chart
        if chart is None or self._process.stdin is None:
            raise TraceqlError(f"{answer.query.name} has no chart")
        description = f"Chart: {answer.title}. The table below has the same rows."
        order = (answer.result.arrow(), replace(chart, title=""), answer.anchor, description)
        pickle.dump(order, self._process.stdin)

    def pictures(self) -> list[str]:
        """All pictures, in order; waits until they are drawn."""
        if self._process.stdin:
            self._process.stdin.close()
        drawn = self._drawn.result()
        if self._process.wait():
            raise TraceqlError("a chart could not be drawn; see the error above")
        return drawn

    def __enter__(self) -> "Drawing":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.shutdown()


def _all(stream: IO[bytes] | None) -> list[str]:
    drawn: list[str] = []
    while stream:
        try:
            drawn.append(pickle.load(stream))
        except EOFError:
            break
    return drawn
