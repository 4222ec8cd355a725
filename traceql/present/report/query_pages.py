"""Pages about queries by name: the comparison of two sides, the results of an experiment."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby
from os.path import commonprefix
from pathlib import Path, PurePath
from typing import Any

from traceql.present.report.answers import Answer
from traceql.present.report.charts import PageCharts
from traceql.present.report.html_page import (
    PendingFigure,
    View,
    definitions_html,
    figure_html,
    format_value,
    html_page,
    section_html,
    section_links,
    tiles_html,
)
from traceql.present.report.sections import (
    ANSWER,
    EXPERIMENT_SECTIONS,
    VERDICT,
    Section,
    comparison_sections,
)
from traceql.result import Result
from traceql.runs.compare import Comparison
from traceql.runs.compare.sentences import answers as comparison_answers
from traceql.runs.compare.sides import RunProfile
from traceql.runs.experiment import Experiment
from traceql.runs.experiment.experiment import experiment_queries
from traceql.runs.experiment.sentences import answers as experiment_answers
from traceql.runs.experiment.sentences import format_duration
from traceql.sql.query import Query
from traceql.util.files import atomic_write, replace_file
from traceql.util.text import format_count


@dataclass(frozen=True)
class _Subject:
    """The subject of a page.

    Attributes:
        query: returns the rows of a query by its name and parameters.
        queries: its queries by name.
        variable: its name in the Python that returns the same rows.
        half: queries whose figures take half of the width, in pairs.
        constant: columns with one value throughout, which tables omit.
    """

    query: Callable[..., Result]
    queries: Mapping[str, Query]
    variable: str
    half: Collection[str]
    constant: Collection[str] = ()

    def page(
        self,
        title: str,
        subtitle: Iterable[str],
        sections: Iterable[Section],
        tops: Mapping[str, str],
        **footer: str,
    ) -> bytes:
        """The page with the sections that have rows.

        Args:
            tops: HTML at the top of sections, by their names; these sections are always shown.
        """
        with closing(PageCharts()) as charts:
            begun = [
                (section, parts)
                for section in sections
                if (parts := list(self._parts(section, charts))) or section.name in tops
            ]
            html = "".join(
                section_html(section, [tops.get(section.name, ""), *(part() for _, part in parts)])
                for section, parts in begun
            )
        used = {query.name: query for _, parts in begun for query, _ in parts}
        links = section_links(section for section, _ in begun)
        html += definitions_html(used.values())
        return html_page(title, " · ".join(filter(None, subtitle)), links, html, **footer).encode()

    def _parts(
        self, section: Section, charts: PageCharts
    ) -> Iterator[tuple[Query, Callable[[], str]]]:
        """The query of each figure, and the function that waits for its HTML."""
        found = [(one, self.query(one.query, **one.parameters)) for one in section.figures]
        wide = []
        shown = (one for one, result in found if len(result))
        for is_half, group in groupby(shown, lambda one: one.query in self.half):
            own = list(group)
            wide += own[len(own) // 2 * 2 :] if is_half else own  # those of half stand in pairs
        for one, result in found:
            query = self.queries[one.query]
            if len(result):
                keys = {*query.head.keys} - {*self.constant}
                columns = [name for name in query.head.keys if name in keys & {*result.columns}]
                answer = Answer(section, one, query, result.select(columns))
                is_wide = one in wide
                pictures = charts.begin(answer, result, name=answer.anchor, wide=is_wide)
                # The Python that returns the same rows.
                given = "".join(f", {name}={value!r}" for name, value in one.parameters.items())
                call = f"{self.variable}.query({one.query!r}{given})"
                view = View("", call, answer.result, pictures)
                yield query, partial(figure_html, PendingFigure(answer, is_wide, (view,)))
            elif one.empty:
                yield query, partial('<p class="none">{}</p>'.format, escape(one.empty))


# --- a comparison --------------------------------------------------------------------------------

_FACT = "SELECT DISTINCT value FROM profile_fact WHERE side = $side AND name = $name ORDER BY ALL"
_JOINTS = "-_.: /"
_WHOLE_WORDS = re.compile(rf"(.*[{_JOINTS}])")  # a beginning up to where a word ends
_ENDING = re.compile(r"(?<=.)(\.duckdb|\.json\.gz|\.json)$")
_MINUS, _ARROW = "\u2212", " \u2192 "


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Writes the page, which needs no network and no other file.

    Raises TraceqlError if the file cannot be written.
    """
    half = {"steps", "roles", "layers.apart", "total", "coverage", "telemetry"}
    subject = _Subject(comparison.query, comparison.queries, "comparison", half)
    has_databases = all(side[0].database for side in (comparison.base, comparison.new))
    sections = comparison_sections(comparison.scopes, has_databases=has_databases)
    subtitle = [
        _fact(comparison, "model.family"),
        _fact(comparison, "gpu.name"),
        _fact(comparison, "parallel.tp", before="TP "),
        f"{format_count(len(comparison.base), 'run')} against {len(comparison.new)}",
        f"changes of less than {100 * comparison.threshold:g}% do not count",
    ]
    title = _ARROW.join(_side_names(comparison))
    top = _comparison_top(comparison)
    replace_file(path, subject.page(title, subtitle, sections, {VERDICT: top}))


def _side_names(comparison: Comparison) -> tuple[str, str]:
    """The names of both sides: of their files, with folders if only these differ."""
    base, new = _side_name(comparison.base), _side_name(comparison.new)
    if base != new:
        return base, new
    return _side_name(comparison.base, folder=True), _side_name(comparison.new, folder=True)


def _side_name(runs: tuple[RunProfile, ...], *, folder: bool = False) -> str:
    paths = [PurePath(run.name) for run in runs]
    names = [
        _ENDING.sub("", "/".join(path.parts[-2:]) if folder else path.name or str(path))
        for path in paths
    ]
    if len(names) == 1:
        return names[0]
    common = commonprefix(names)  # noqa: RUF071 - letters, not folders
    whole = _WHOLE_WORDS.match(common)
    name = (whole[1] if whole else common.rstrip("0123456789")).rstrip(_JOINTS)
    folders = {path.parent.name for path in paths}
    folder_name = folders.pop() if len(folders) == 1 else ""
    return f"{name or folder_name or names[0]} ({format_count(len(runs), 'run')})"


def _fact(comparison: Comparison, name: str, *, before: str = "") -> str:
    """The value on both sides."""
    values = []
    for side in ("base", "new"):
        rows = comparison.sql(_FACT, {"side": side, "name": name})
        values.append(", ".join(row["value"] for row in rows))
    known = dict.fromkeys(filter(None, values))
    return before + _ARROW.join(known) if known else ""


def _comparison_top(comparison: Comparison) -> str:
    """The answer in words, and a tile for each number with a verdict."""
    rows = comparison.query("answer").rows()
    sentences = list(comparison_answers(comparison))
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


# --- an experiment -------------------------------------------------------------------------------

_EXPERIMENTS = "SELECT * FROM experiment ORDER BY experiment_id"
_GPUS = "SELECT DISTINCT gpu_name FROM repeat WHERE gpu_name IS NOT NULL ORDER BY gpu_name"
# The best median of each metric, and the point that has it.
_BEST = """
    SELECT
        MIN(median) FILTER (metric = 'ttft' AND stat = 'median') AS ttft_ns,
        ARG_MIN(title, median) FILTER (metric = 'ttft' AND stat = 'median') AS ttft,
        MIN(median) FILTER (metric = 'tpot' AND stat = 'median') AS tpot_ns,
        ARG_MIN(title, median) FILTER (metric = 'tpot' AND stat = 'median') AS tpot,
        MIN(median) FILTER (metric = 'batch_latency' AND stat = 'median') AS batch_ns,
        ARG_MIN(title, median) FILTER (metric = 'batch_latency' AND stat = 'median') AS batch,
        MAX(median / gpus) FILTER (metric = 'output_tokens_per_second') AS rate,
        ARG_MAX(title, median / gpus) FILTER (metric = 'output_tokens_per_second') AS fastest
    FROM point_value
    INNER JOIN point USING (point_id)
    INNER JOIN point_label USING (point_id)
"""
_FOOTER = (
    "Latencies and throughput are those of vllm bench without the profiler; parts of steps are of "
    "the repeat under the profiler. Intervals are of the median of repeats, which are starts of "
    "the server."
)


def write_experiment(found: Experiment, path: Path) -> None:
    """Writes the page, which needs no network and no other file.

    Raises TraceqlError if the file cannot be written.
    """
    rows = found.sql(_EXPERIMENTS).rows()
    names = [row["name"] for row in rows]
    constant = () if len(names) > 1 else ("experiment",)
    half = {"fit", "memory", "energy"}
    subject = _Subject(found.query, experiment_queries(), "results", half, constant)
    title = f"Experiment{'' if len(names) == 1 else 's'} {', '.join(names)}"
    subtitle = [
        ", ".join(dict.fromkeys(row["model"] for row in rows)),
        *(row["gpu_name"] for row in found.sql(_GPUS)),
        ", ".join(dict.fromkeys(row["bench"] for row in rows)),
        "random weights" if all(row["dummy_weights"] for row in rows) else "",
    ]
    with atomic_write(path) as draft:  # fails before the work if the path is not writable
        tops = {ANSWER: _experiment_top(found, rows)}
        page = subject.page(title, subtitle, EXPERIMENT_SECTIONS, tops, footer=_FOOTER)
        draft.write_bytes(page)


def _experiment_top(found: Experiment, rows: list[dict[str, Any]]) -> str:
    """The question, the answer in words, and the best numbers."""
    questions = dict.fromkeys(row["question"] for row in rows if row["question"])
    listed = "".join(f"<li>{escape(question)}</li>" for question in questions)
    sentences = list(experiment_answers(found))
    results, warnings = (
        "".join(f"<p>{escape(one.text)}</p>" for one in sentences if one.warns == warns)
        for warns in (False, True)
    )
    return (
        (f'<ul class="questions">{listed}</ul>' if listed else "")
        + f'<div class="verdict open">{results}</div>'
        + (f'<div class="verdict slower">{warnings}</div>' if warnings else "")
        + tiles_html(_tiles(found.sql(_BEST).rows()[0]))
    )


def _tiles(best: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for name, column in (("TTFT", "ttft"), ("TPOT", "tpot"), ("batch latency", "batch")):
        if (ns := best[f"{column}_ns"]) is not None:
            yield f"lowest median {name}", escape(format_duration(ns)), escape(best[column]), ""
    if best["rate"] is not None:
        name = "most generated tokens/s and GPU"
        yield name, f"{best['rate']:,.0f}", escape(best["fastest"]), ""
