"""The comparison of two sides as one self-contained page that opens from disk."""

import re
from contextlib import closing
from html import escape
from os.path import commonprefix
from pathlib import Path, PurePath
from typing import Any

from traceql.present.report.charts import PageCharts
from traceql.present.report.html_page import format_value, html_page, tiles_html
from traceql.present.report.query_sections import Subject, page_body
from traceql.present.report.sections import VERDICT, comparison_sections
from traceql.runs.compare import Comparison
from traceql.runs.compare.sentences import answers
from traceql.runs.compare.sides import RunProfile
from traceql.util.files import replace_file

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
    has_databases = all(side[0].database for side in (comparison.base, comparison.new))
    sections = comparison_sections(comparison.scopes, has_databases=has_databases)
    with closing(PageCharts()) as charts:
        body = page_body(subject, sections, charts, {VERDICT: _top(comparison)})
    return html_page(
        _ARROW.join(side_names(comparison)), _subtitle(comparison), body.links, body.html
    )


def side_names(comparison: Comparison) -> tuple[str, str]:
    """The names of both sides: of their files, with folders if only these differ."""
    base, new = _side_name(comparison.base), _side_name(comparison.new)
    if base != new:
        return base, new
    return _side_name(comparison.base, folder=True), _side_name(comparison.new, folder=True)


def _side_name(runs: tuple[RunProfile, ...], *, folder: bool = False) -> str:
    names = [_run_name(PurePath(run.name), folder=folder) for run in runs]
    if len(names) == 1:
        return names[0]
    common = commonprefix(names)  # noqa: RUF071 - letters, not folders
    whole = _WHOLE_WORDS.match(common)
    name = (whole[1] if whole else common.rstrip("0123456789")).rstrip(_JOINTS)
    folders = {PurePath(run.name).parent.name for run in runs}
    folder_name = folders.pop() if len(folders) == 1 else ""
    return f"{name or folder_name or names[0]} ({_format_runs(runs)})"


def _run_name(path: PurePath, *, folder: bool) -> str:
    name = "/".join(path.parts[-2:]) if folder else path.name or str(path)
    ending = next((one for one in _ENDINGS if name.endswith(one)), "")
    return name.removesuffix(ending) or name


def _format_runs(runs: tuple[RunProfile, ...]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"


def _subtitle(comparison: Comparison) -> str:
    parts = [
        _fact(comparison, "model.family"),
        _fact(comparison, "gpu.name"),
        _fact(comparison, "parallel.tp", before="TP "),
        f"{_format_runs(comparison.base)} against {len(comparison.new)}",
        f"changes of less than {100 * comparison.threshold:g}% do not count",
    ]
    return " · ".join(part for part in parts if part)


def _fact(comparison: Comparison, name: str, *, before: str = "") -> str:
    """The value on both sides."""
    values = []
    for side in ("base", "new"):
        rows = comparison.sql(_FACT, {"side": side, "name": name})
        values.append(", ".join(row["value"] for row in rows))
    known = dict.fromkeys(filter(None, values))
    return before + _ARROW.join(known) if known else ""


def _top(comparison: Comparison) -> str:
    """The answer in words, and a tile for each number with a verdict."""
    rows = comparison.query("answer").rows()
    sentences = list(answers(comparison))
    tone = _tone(sentences[0].verdict) if sentences else "open"
    words = "".join(f"<p>{escape(sentence.text)}</p>" for sentence in sentences)
    words = words or "<p>Nothing is compared: neither side has steps.</p>"
    verdict = f'<div class="verdict {tone}">{words}</div>'
    tiles = [_tile(row) for row in rows if row["metric"] in ("step", "tokens_per_second")]
    if comparison.same_recordings or not tiles:
        return verdict
    return verdict + tiles_html(tiles)


def _tone(verdict: str) -> str:
    return verdict if verdict in ("faster", "slower") else "open"


def _tile(row: dict[str, Any]) -> tuple[str, str, str, str]:
    name = f"{row['scope']} step" if row["metric"] == "step" else "tokens per second"
    is_time = row["unit"] == "ns"
    base, new = (
        format_value(row[side], "ns") if is_time else f"{row[side]:,.0f}"
        for side in ("base", "new")
    )
    change = f"{row['change_pct']:+,.1f}%".replace("-", _MINUS)
    return escape(name), new, f"{change}, {row['verdict']}; was {base}", _tone(row["verdict"])
