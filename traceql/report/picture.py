"""SVG inside a page: small, in the page's colours, and one image to a screen reader."""

import re
from html import escape

from traceql.chart.theme import INK, PAPER, QUIET, RULE

# Colours that are hard to see on a dark background, and their replacements there.
ON_DARK = {
    "#7A0177": "#d16bd6",
    "#882255": "#d4699a",
    "#AA4499": "#cf6fc0",
    "#117733": "#3fae62",
    "#00507D": "#3f8fc9",
    "#2C6FA6": "#4f97d1",
    "#0072B2": "#2f93d6",
    "#00694D": "#2ea57f",
    "#9C3D0A": "#c96a35",
    "#B34A12": "#d0703a",
    "#767676": "#9a9a9a",
    "#B4BAC2": "#6b737d",
}
_VARIABLES = {INK: "ink", QUIET: "quiet", RULE: "rule", PAPER: "paper"} | {
    colour: f"c{colour[1:]}" for colour in ON_DARK
}
_PAINT = re.compile(r'(fill|stroke|stop-color)="(#[0-9A-Fa-f]{6})"')
_LONG_NUMBER = re.compile(r"(\d+\.\d\d)\d+")
_UNUSED = re.compile(r' (?:aria-\w+|role|pointer-events)="[^"]*"')
_TAG = re.compile(r"<[^>]*>")  # text between tags must stay as it is
_IDENTIFIER = re.compile(r'id="([^"]+)"')


def inline(svg: str, name: str, description: str) -> str:
    """The picture, reduced to what a page needs.

    Args:
        name: unique among the pictures of the page.
        description: the text alternative.
    """
    picture = _TAG.sub(_slim, svg)
    for found in set(_IDENTIFIER.findall(picture)):
        picture = picture.replace(f'"{found}"', f'"{name}-{found}"')
        picture = picture.replace(f"(#{found})", f"(#{name}-{found})")
    label = f'<svg role="img" aria-label="{escape(description)}"'
    return picture.replace("<svg", label, 1)


def _slim(found: re.Match[str]) -> str:
    tag = _LONG_NUMBER.sub(r"\1", _UNUSED.sub("", found[0]))
    return _PAINT.sub(_variable, tag)


def variables(dark: bool) -> str:
    """CSS variables for the colours that differ between light and dark mode."""
    return "".join(
        f"--c{colour[1:]}:{on_dark if dark else colour};" for colour, on_dark in ON_DARK.items()
    )


def _variable(found: re.Match[str]) -> str:
    name = _VARIABLES.get(found[2])
    return f'{found[1]}="var(--{name})"' if name else found[0]
