"""Writes charts to files, without a network or a display."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from traceql.errors import TraceqlError
from traceql.files import write_whole

_STAND_IN = "\ue000"  # a character of Unicode's private use that replaces <
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REPLACEMENT = "\ufffd"
_PIXEL_RATIO = 2  # sharp on high-resolution screens and in print


def save(chart: alt.Chart, path: Path) -> None:
    """Writes a chart as .html, .png or .svg, by the suffix of `path`.

    The HTML page contains everything that it needs.

    Raises:
        TraceqlError: `path` has another suffix or cannot be written.
    """
    writers: dict[str, Callable[[alt.Chart], bytes]] = {".html": _html, ".png": _png, ".svg": _svg}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise TraceqlError(
            f"cannot draw into '{path}'; its name must end in one of {', '.join(writers)}"
        )
    write_whole(path, writer(chart))


def svg(chart: alt.Chart) -> str:
    drawing: str = vl_convert.vegalite_to_svg(_still(chart))
    return drawing


def _still(chart: alt.Chart) -> dict[str, Any]:
    """The specification for a still picture.

    Tooltips are left out, because they take a quarter of the time. Characters that XML does not
    allow are replaced, because the renderer would abort the process.
    """
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["encoding"].pop("tooltip", None)
    still: dict[str, Any] = _with_texts(spec, lambda text: _NO_XML.sub(_REPLACEMENT, text))
    return still


def _html(chart: alt.Chart) -> bytes:
    """A page in whose script no text of the chart opens a tag, even if a name in the trace does."""
    spec = _with_texts(chart.to_dict(), lambda text: text.replace("<", _STAND_IN))
    page: str = vl_convert.vegalite_to_html(spec, bundle=True)
    return page.replace(_STAND_IN, r"\u003c").encode()


def _with_texts(value: Any, changed: Callable[[str], str]) -> Any:
    """The same JSON value with every text in it changed."""
    if isinstance(value, str):
        return changed(value)
    if isinstance(value, list):
        return [_with_texts(item, changed) for item in value]
    if isinstance(value, dict):
        return {name: _with_texts(item, changed) for name, item in value.items()}
    return value


def _png(chart: alt.Chart) -> bytes:
    picture: bytes = vl_convert.vegalite_to_png(_still(chart), scale=_PIXEL_RATIO)
    return picture


def _svg(chart: alt.Chart) -> bytes:
    return svg(chart).encode()
