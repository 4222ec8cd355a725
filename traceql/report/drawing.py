"""Draws the charts of a page while its queries run."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from traceql.chart.drawing import Drawing, Order
from traceql.errors import QueryInvalid, TraceqlError
from traceql.report.facts import Answer
from traceql.report.picture import inline

WIDE, NARROW = 640, 328  # pixels: for half of a large screen, and for a phone


@dataclass(frozen=True)
class Pictures:
    """A chart as SVG in both widths, or the reason why it could not be drawn."""

    wide: str = ""
    narrow: str = ""
    missing: str = ""


class PageDrawing:
    """Draws each chart in both widths, with a process for each width."""

    def __init__(self) -> None:
        self._drawings = {width: Drawing() for width in (WIDE, NARROW)}
        self._threads = {width: ThreadPoolExecutor(max_workers=1) for width in self._drawings}
        for width, drawing in self._drawings.items():
            self._threads[width].submit(drawing.start)

    def ask(self, answer: Answer) -> Callable[[], Pictures] | None:
        """Begins to draw, if there is a chart; the function that is returned waits for it."""
        chart = answer.query.head.chart
        try:
            if chart is None or not answer.result.can_be_drawn:
                return None
        except QueryInvalid as error:
            return partial(Pictures, missing=str(error))
        table, untitled = answer.result.arrow(), replace(chart, title="")
        description = f"Chart: {answer.title}. The table below has the same rows."
        futures = []
        for width, drawing in self._drawings.items():
            adapted = partial(inline, name=f"{answer.anchor}-{width}", description=description)
            order = Order(table, untitled, width, adapted=adapted)
            futures.append(self._threads[width].submit(drawing.draw, order))
        return partial(_pictures, *futures)

    def close(self) -> None:
        """Ends both processes, also while they draw."""
        for width, drawing in self._drawings.items():
            self._threads[width].shutdown(wait=False, cancel_futures=True)
            drawing.close()
            self._threads[width].shutdown()


def _pictures(wide: "Future[bytes]", narrow: "Future[bytes]") -> Pictures:
    try:
        return Pictures(wide.result().decode(), narrow.result().decode())
    except TraceqlError as error:
        return Pictures(missing=str(error))
