"""The comparison of two sides as one self-contained page that opens from disk."""

import re
from collections.abc import Iterator
from contextlib import closing
from html import escape
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any

from traceql.present.report.asked import Subject, page_body
from traceql.present.report.comparison_sections import (
    ANSWER,
    COMPARED,
    HARDWARE,
    SETUP,
    TOTAL,
    UNNAMED,
    of_scope,
)
from traceql.present.report.drawing import PageDrawing
from traceql.present.report.sections import Section
from traceql.present.report.shell import html_page
from traceql.runs.compare import Comparison
from traceql.runs.compare.sentences import answers
from traceql.runs.compare.sides import Run
from traceql.util.files import replace_file
from traceql.util.units import display_unit

_FACT = "SELECT DISTINCT value FROM profile_fact WHERE side = $side AND name = $name ORDER BY ALL"
_JOINTS = "-_.: /"
_WHOLE_WORDS = re.compile(rf"(.*[{_JOINTS}])")  # a beginning up to where a word ends
_ENDINGS = (".duckdb", ".json.gz", ".json")
_HALF = {"steps", "roles", "layers.apart", "total", "coverage", "telemetry"}
_MINUS, _ARROW = "\u2212", " \u2192 "


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Writes the page, which needs no network and no other file.

    Raises:
        TraceqlError: the file cannot be written.
    """
    replace_file(path, comparison_page(comparison).encode())


def comparison_page(comparison: Comparison) -> str:
    """The HTML with styles, pictures and the script that sorts rows inside."""
    subject = Subject(comparison.query, comparison.queries, "comparison", _HALF)
    with closing(PageDrawing()) as drawing:
        body = page_body(subject, _sections(comparison), drawing, {ANSWER.name: _top(comparison)})
    return html_page(
        _ARROW.join(side_names(comparison)), _subtitle(comparison), body.links, body.html
    )


def side_names(comparison: Comparison) -> tuple[str, str]:
    """What both sides are called: their files, with folders if these alone differ."""
    base, new = _side_name(comparison.base), _side_name(comparison.new)
    if base != new:
        return base, new
    return _side_name(comparison.base, folder=True), _side_name(comparison.new, folder=True)


def _side_name(runs: tuple[Run, ...], *, folder: bool = False) -> str:
    names = [_without_ending(_name(run, folder=folder)) for run in runs]
    if len(names) == 1:
        return names[0]
    common = _beginning(names)
    whole = _WHOLE_WORDS.match(common)
    shown = (whole[1] if whole else common.rstrip("0123456789")).rstrip(_JOINTS)
    return f"{shown or _folder(runs) or names[0]} ({_counted(runs)})"


def _folder(runs: tuple[Run, ...]) -> str:
    """The folder that all runs are in; empty if there is none."""
    folders = {PurePath(run.name).parent.name for run in runs}
    return folders.pop() if len(folders) == 1 else ""


def _beginning(names: list[str]) -> str:
    """The letters that all names begin with."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike)


def _name(run: Run, *, folder: bool) -> str:
    path = PurePath(run.name)
    return "/".join(path.parts[-2:]) if folder else path.name or run.name


def _without_ending(name: str) -> str:
    ending = next((one for one in _ENDINGS if name.endswith(one)), "")
    return name.removesuffix(ending) or name


def _subtitle(comparison: Comparison) -> str:
    parts = [
        _fact(comparison, "model.family"),
        _fact(comparison, "gpu.name"),
        _fact(comparison, "parallel.tp", before="TP "),
        f"{_counted(comparison.base)} against {len(comparison.new)}",
        f"changes of less than {100 * comparison.threshold:g}% do not count",
    ]
    return " · ".join(part for part in parts if part)


def _counted(runs: tuple[Run, ...]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"


def _fact(comparison: Comparison, name: str, *, before: str = "") -> str:
    """The value on both sides."""
    base, new = (
        ", ".join(row["value"] for row in _rows(comparison, side, name)) for side in ("base", "new")
    )
    values = dict.fromkeys(value for value in (base, new) if value)
    return before + _ARROW.join(values) if values else ""


def _rows(comparison: Comparison, side: str, name: str) -> list[dict[str, Any]]:
    return comparison.sql(_FACT, {"side": side, "name": name}).rows()


def _sections(comparison: Comparison) -> Iterator[Section]:
    yield from (ANSWER, SETUP)
    yield from map(of_scope, comparison.scopes)
    yield TOTAL
    yield COMPARED
    if _has_databases(comparison):
        yield HARDWARE
    yield UNNAMED


def _has_databases(comparison: Comparison) -> bool:
    """Whether the first run of each side has more than a saved profile."""
    return all(side[0].database for side in (comparison.base, comparison.new))


def _top(comparison: Comparison) -> str:
    """The answer in words, and a tile for each number that has one."""
    rows = comparison.query("answer").rows()
    told = list(answers(comparison))
    tone = _tone(told[0].verdict) if told else "open"
    words = "".join(f"<p>{escape(sentence.text)}</p>" for sentence in told)
    words = words or "<p>Nothing is compared: neither side has steps.</p>"
    said = f'<div class="verdict {tone}">{words}</div>'
    if comparison.same_recordings:
        return said
    tiles = "".join(_tile(row) for row in rows if row["metric"] in ("step", "tokens_per_second"))
    return f'{said}<dl class="tiles">{tiles}</dl>' if tiles else said


def _tone(verdict: str) -> str:
    return {"faster": "faster", "slower": "slower"}.get(verdict, "open")


def _tile(row: dict[str, Any]) -> str:
    name = f"{row['scope']} step" if row["metric"] == "step" else "tokens per second"
    moved = f"{row['change_pct']:+,.1f}%".replace("-", _MINUS)
    note = f"{moved}, {row['verdict']}; was {_number(row['base'], row['unit'])}"
    return (
        f"<div><dt>{escape(name)}</dt><dd>{_number(row['new'], row['unit'])}</dd>"
        f'<dd class="{_tone(row["verdict"])}">{note}</dd></div>'
    )


def _number(value: float, unit: str) -> str:
    shown = display_unit("dur", value) if unit == "ns" else None
    if shown:
        return f"{value / shown.divisor:,.2f} <small>{escape(shown.symbol)}</small>"
    return f"{value:,.0f}"
