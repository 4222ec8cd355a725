"""The results of an experiment as one self-contained page that opens from disk."""

from collections.abc import Iterator
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any

from traceql.present.report.charts import PageCharts
from traceql.present.report.html_page import html_page, tiles_html
from traceql.present.report.query_sections import Subject, page_body
from traceql.present.report.sections import ANSWER, EXPERIMENT_SECTIONS
from traceql.runs.experiment import Experiment
from traceql.runs.experiment.experiment import experiment_queries
from traceql.runs.experiment.sentences import answers, format_duration
from traceql.util.files import atomic_write

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
_HALF = {"fit", "memory", "energy"}
_FOOTER = (
    "Latencies and throughput are those of vllm bench without the profiler; parts of steps are of "
    "the repeat under the profiler. Intervals are of the median of repeats, which are starts of "
    "the server."
)


def write_experiment(found: Experiment, path: Path) -> None:
    """Writes the page, which needs no network and no other file.

    Raises:
        TraceqlError: the file cannot be written.
    """
    with atomic_write(path) as draft:  # fails before the work if the path is not writable
        draft.write_text(experiment_page(found), encoding="utf-8")


def experiment_page(found: Experiment) -> str:
    """The HTML with styles, pictures and the script that sorts rows inside."""
    rows = found.sql(_EXPERIMENTS).rows()
    names = [row["name"] for row in rows]
    constant = () if len(names) > 1 else ("experiment",)
    subject = Subject(found.query, experiment_queries(), "results", _HALF, constant)
    with closing(PageCharts()) as charts:
        body = page_body(subject, EXPERIMENT_SECTIONS, charts, {ANSWER: _top(found, rows)})
    title = f"Experiment{'' if len(names) == 1 else 's'} {', '.join(names)}"
    subtitle = [
        ", ".join(dict.fromkeys(row["model"] for row in rows)),
        *(row["gpu_name"] for row in found.sql(_GPUS)),
        ", ".join(dict.fromkeys(row["bench"] for row in rows)),
        "random weights" if all(row["dummy_weights"] for row in rows) else "",
    ]
    return html_page(
        title, " · ".join(filter(None, subtitle)), body.links, body.html, footer=_FOOTER
    )


def _top(found: Experiment, rows: list[dict[str, Any]]) -> str:
    """The question, the answer in words, and the best numbers."""
    questions = dict.fromkeys(row["question"] for row in rows if row["question"])
    listed = "".join(f"<li>{escape(question)}</li>" for question in questions)
    sentences = list(answers(found))
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
