"""Draws the charts of a page while its queries run."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from queue import SimpleQueue

from traceql.errors import QueryInvalid, TraceqlError
from traceql.present.report.answers import Answer
from traceql.present.report.picture import inline
from traceql.result import Result
from traceql.result.chart.drawing import Drawing, Order

# Pixels: for a phone, for half of the page and for all of it. On a page of any width, the last two
# are scaled alike, so that their letters have one size.
WIDTHS = {"narrow": 328, "half": 560, "full": 1170}


@dataclass(frozen=True)
class Pictures:
    """A chart as SVG in each width of WIDTHS, or the reason why it could not be drawn."""

    drawn: dict[str, str] = field(default_factory=dict)
    missing: str = ""

    @property
    def html(self) -> str:
        if self.missing:
            return f'<p class="none">No picture: {escape(self.missing)}.</p>'
        return "".join(
            f'<div class="{size}">{picture}</div>' for size, picture in self.drawn.items()
        )


class PageCharts:
    """Draws each chart in all widths, with several processes.

    These are at most as many as processors: to start one takes as long as many charts.
    """

    def __init__(self) -> None:
        count = min(len(WIDTHS), os.cpu_count() or 1)
        self._drawings = [Drawing(for_pages=True) for _ in range(count)]
        self._free = SimpleQueue[Drawing]()
        self._threads = ThreadPoolExecutor(count)
        for drawing in self._drawings:
            self._free.put(drawing)
            self._threads.submit(drawing.start)

    def begin(
        self, answer: Answer, result: Result, *, name: str, wide: bool
    ) -> Callable[[], Pictures] | None:
        """Begins to draw, if there is a chart; the returned function waits for it.

        Args:
            result: the rows to draw, all or some of the answer's.
            name: prefix of all ids in the pictures, unique on the page.
            wide: whether the figure may take the whole width of the page.
        """
        chart = answer.chart
        try:
            if chart is None or not result.can_be_drawn:
                return None
        except QueryInvalid as error:
            return partial(Pictures, missing=str(error))
        table, untitled = result.arrow(), replace(chart, title="")
        description = f"Chart: {answer.title}. The table below has the same rows."
        futures = {}
        for size in ("narrow", "half", "full") if wide else ("narrow", "half"):
            adapted = partial(inline, name=f"{name}-{size}", description=description)
            order = Order(table, untitled, WIDTHS[size], adapted=adapted, tagged=True)
            futures[size] = self._threads.submit(self._draw, order)
        return partial(_pictures, futures)

    def _draw(self, order: Order) -> bytes:
        drawing = self._free.get()
        try:
            return drawing.draw(order)
        finally:
            self._free.put(drawing)

    def close(self) -> None:
        """Ends all processes, also while they draw."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for drawing in self._drawings:
            drawing.close()
        self._threads.shutdown()


def _pictures(futures: "dict[str, Future[bytes]]") -> Pictures:
    try:
        return Pictures({size: future.result().decode() for size, future in futures.items()})
    except TraceqlError as error:
        return Pictures(missing=str(error))
