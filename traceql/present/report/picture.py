"""Adapts an SVG picture to the page that contains it: its colors, ids, size and description."""

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from traceql.result.chart.theme import INK, PAPER, QUIET, RULE

# Colors that are hard to see on dark paper, and the colors that replace them there.
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
    "#2166AC": "#5b9fdc",
    "#B2182B": "#ec6a6f",
    "#DDA0A7": "#7d4145",
    "#A3BDDA": "#37597c",
}
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
        description: for screen readers.
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
