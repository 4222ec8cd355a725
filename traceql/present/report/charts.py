"""Draws the charts of a page while its queries run, and adapts them to the page."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from queue import SimpleQueue
from xml.etree import ElementTree

from traceql.errors import QueryInvalid, TraceqlError
from traceql.present.report.answers import Answer
from traceql.result import Result
from traceql.result.chart.drawing import Drawing, Order
from traceql.result.chart.theme import INK, PAPER, QUIET, RULE

# Colors that are hard to see on dark paper, and the colors that replace them there.
ON_DARK = {
    "#7A0177": "#d16bd6", "#882255": "#d4699a", "#AA4499": "#cf6fc0", "#117733": "#3fae62",
    "#00507D": "#3f8fc9", "#2C6FA6": "#4f97d1", "#0072B2": "#2f93d6", "#00694D": "#2ea57f",
    "#9C3D0A": "#c96a35", "#B34A12": "#d0703a", "#767676": "#9a9a9a", "#B4BAC2": "#6b737d",
    "#2166AC": "#5b9fdc", "#B2182B": "#ec6a6f", "#DDA0A7": "#7d4145", "#A3BDDA": "#37597c",
}  # fmt: skip
_VARIABLES = {INK: "ink", QUIET: "quiet", RULE: "rule", PAPER: "paper"} | {
    colour: f"c{colour[1:]}" for colour in ON_DARK
}
_PAINTED = ("fill", "stroke", "stop-color")
_UNUSED = ("role", "pointer-events")  # and all of aria-*
_LONG_NUMBER = re.compile(r"(\d+\.\d\d)\d+")
_TAG = re.compile(r"(phase|rank)=(?!null|undefined)(\w+)")
_REFERENCE = re.compile(r"url\(#(.+)\)")

ElementTree.register_namespace("", "http://www.w3.org/2000/svg")  # tags without a prefix


def inline(svg: bytes, name: str, description: str) -> bytes:
    """The picture for use inside a page, without attributes that the page does not need.

    Marks of one rank or phase have it in `data-rank` and `data-phase`.

    Args:
        name: prefix of all ids in the picture, unique on the page.
    """
    picture = ElementTree.fromstring(svg)
    for group in picture.iter():
        is_of_marks = "role-mark" in group.get("class", "")
        for element in group:
            tags = _TAG.findall(element.get("aria-label", "")) if is_of_marks else []
            element.attrib = dict(_slim(element.attrib, name)) | {
                f"data-{tag}": value for tag, value in tags
            }
    picture.attrib = dict(_slim(picture.attrib, name))
    picture.attrib = {"role": "img", "aria-label": description, **picture.attrib}
    return ElementTree.tostring(picture, encoding="unicode").encode()


def _slim(attributes: Mapping[str, str], name: str) -> Iterator[tuple[str, str]]:
    for attribute, value in attributes.items():
        if attribute in _UNUSED or attribute.startswith("aria-"):
            continue
        if attribute == "id":
            yield attribute, f"{name}-{value}"
        elif attribute in _PAINTED and value in _VARIABLES:
            yield attribute, f"var(--{_VARIABLES[value]})"
        else:
            shorter = _LONG_NUMBER.sub(r"\1", value)
            yield attribute, _REFERENCE.sub(rf"url(#{name}-\1)", shorter)


def variables(dark: bool) -> str:
    """CSS variables for the colors that differ between light and dark paper."""
    return "".join(
        f"--c{colour[1:]}:{on_dark if dark else colour};" for colour, on_dark in ON_DARK.items()
    )


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
            name: prefix of all ids in the pictures, unique on the page.
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

        def pictures() -> Pictures:
            try:
                return Pictures({size: one.result().decode() for size, one in futures.items()})
            except TraceqlError as error:
                return Pictures(missing=str(error))

        return pictures

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
