"""Writes charts to files, without a network or a display."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from traceql.errors import TraceqlError
from traceql.files import write_whole

_STAND_IN = "\ue000"  # for <; from Unicode's private use area
_PIXEL_RATIO = 2  # for high-resolution screens and print


def save(chart: alt.Chart, path: Path) -> None:
    """Writes a chart as .png, .svg or self-contained .html.

    Raises:
        TraceqlError: the suffix is another one, or the file cannot be written.
    """
    writers: dict[str, Callable[[alt.Chart], bytes]] = {".html": _html, ".png": _png, ".svg": _svg}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise TraceqlError(
            f"cannot write a chart to '{path}'; name a file that ends in {', '.join(writers)}"
        )
    write_whole(path, writer(chart))


def svg(chart: alt.Chart) -> str:
    drawing: str = vl_convert.vegalite_to_svg(_still(chart))
    return drawing


def _still(chart: alt.Chart) -> dict[str, Any]:
    """The chart without tooltips, which take a quarter of the drawing time."""
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["encoding"].pop("tooltip", None)
    return spec


def _html(chart: alt.Chart) -> bytes:
    """Self-contained HTML. A name in the trace may look like a tag, so that every < is escaped."""
    page: str = vl_convert.vegalite_to_html(_with_stand_ins(chart.to_dict()), bundle=True)
    return page.replace(_STAND_IN, r"\u003c").encode()


def _with_stand_ins(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("<", _STAND_IN)
    if isinstance(value, list):
        return [_with_stand_ins(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_stand_ins(item) for name, item in value.items()}
    return value


def _png(chart: alt.Chart) -> bytes:
    picture: bytes = vl_convert.vegalite_to_png(_still(chart), scale=_PIXEL_RATIO)
    return picture


def _svg(chart: alt.Chart) -> bytes:
    return svg(chart).encode()
