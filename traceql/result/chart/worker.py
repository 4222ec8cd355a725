"""A process that draws charts as the contents of files, without a network or a display.

An error of the drawing library ends its process. This one reads pickled orders from stdin, and
answers each on stdout with the picture or the reason why there is none. It ends with its input, so
it does not outlive the process that started it.
"""

import gc
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import vl_convert
from altair.utils.schemapi import debug_mode

from traceql.errors import TraceqlError, reason
from traceql.result.chart.draw import drawn
from traceql.result.chart.drawing import Specified
from traceql.result.chart.encodings import Drawn
from traceql.util.text import printable

_STAND_IN = "\ue000"  # a character of Unicode's private use that replaces <
_NO_TEXT = re.compile(r"<text [^>]*/>")  # a label that has no room in its mark
_PIXEL_RATIO = 2  # sharp on high-resolution screens and in print

_Spec = dict[str, Any]


def picture(chart: Drawn, suffix: str) -> bytes:
    """The picture of a chart; see `specified_picture`."""
    return specified_picture(chart.to_dict(validate=False), suffix)


def specified_picture(spec: _Spec, suffix: str) -> bytes:
    """The contents of a file with one of the suffixes of `traceql.result.chart.drawing`.

    The HTML page contains everything that it needs. In its script no text of the chart opens a tag,
    even if a name in the trace does.
    """
    if suffix == ".html":
        spec = _with_texts(spec, lambda text: printable(text).replace("<", _STAND_IN))
        page: str = vl_convert.vegalite_to_html(spec, bundle=True)
        return page.replace(_STAND_IN, r"\u003c").encode()
    if suffix == ".png":
        drawing: bytes = vl_convert.vegalite_to_png(_still(spec), scale=_PIXEL_RATIO)
        return drawing
    return _NO_TEXT.sub("", vl_convert.vegalite_to_svg(_still(spec))).encode()


def _still(spec: _Spec) -> _Spec:
    """The specification for a still picture.

    Tooltips are left out, because they take a quarter of the time. What XML does not allow is
    written out, because the renderer would abort the process.
    """
    for layer in [spec, *spec.get("layer", ())]:
        layer.get("encoding", {}).pop("tooltip", None)
    still: _Spec = _with_texts(spec, printable)
    return still


def _with_texts(value: Any, changed: Callable[[str], str]) -> Any:
    """The same JSON value with every text in it changed, and every name."""
    if isinstance(value, str):
        return changed(value)
    if isinstance(value, list):
        return [_with_texts(item, changed) for item in value]
    if isinstance(value, dict):
        return {changed(name): _with_texts(item, changed) for name, item in value.items()}
    return value


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for us
    gc.disable()  # a collection scans many objects and finds little garbage
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output is not protocol output
    while True:
        try:
            order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[bytes | None, str]
        try:
            with debug_mode(False):  # no validation against Altair's schema, which costs time
                if isinstance(order, Specified):
                    drawing = specified_picture(order.spec, order.suffix)
                else:
                    width, tagged = order.width, order.tagged
                    chart = drawn(order.table, order.chart, width=width, tagged=tagged)
                    drawing = picture(chart, order.suffix)
            answer = (order.adapted(drawing) if order.adapted else drawing), ""
        except TraceqlError as error:
            answer = None, str(error)
        except Exception as error:
            answer = None, f"the chart cannot be drawn: {reason(error)}"
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
    os._exit(0)  # skips the slow clean-up of the interpreter
