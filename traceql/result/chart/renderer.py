"""Shows charts of traceql in notebooks as still pictures, which need no network.

Altair's own renderer writes a page that loads a script from the internet. This one draws the charts
that it knows by a mark, which they keep when they are changed, and leaves all others to Altair's.
"""

from collections.abc import Callable
from typing import Any

import altair as alt

from traceql.errors import TraceqlError
from traceql.result.chart.data import Drawn
from traceql.result.chart.drawing import Specified, notebook_drawing

SVG = "image/svg+xml"
_NAME = "traceql"
_MARK = {"traceql": "still"}
_ALTAIRS = "default"

_Bundle = dict[str, Any]
_Renderer = Callable[..., _Bundle | tuple[_Bundle, _Bundle]]


def shown_offline(chart: Drawn) -> Drawn:
    """The chart with the mark.

    A renderer that the user has chosen, as with `alt.renderers.enable("mimetype")`, stays.
    """
    if alt.renderers.active == _ALTAIRS and (of_altair := alt.renderers.get()):
        alt.renderers.register(_NAME, _renderer(of_altair))
        alt.renderers.enable(_NAME)
    marked: Drawn = chart.properties(usermeta=_MARK)
    return marked


def _renderer(of_altair: _Renderer) -> _Renderer:
    def render(spec: dict[str, Any], **options: Any) -> _Bundle | tuple[_Bundle, _Bundle]:
        if spec.get("usermeta") != _MARK:
            return of_altair(spec, **options)
        try:
            picture = notebook_drawing().draw(Specified(spec)).decode()
        except TraceqlError as error:
            return {"text/plain": f"no picture: {error}"}
        return {SVG: picture, "text/plain": "<chart>"}

    return render
