"""The results of an experiment as one self-contained page that opens from disk."""

from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any

from traceql.present.report.asked import Subject, page_body
from traceql.present.report.drawing import PageDrawing
from traceql.present.report.experiment_sections import ANSWER, SECTIONS
from traceql.present.report.shell import html_page
from traceql.runs.experiment import Experiment
from traceql.runs.experiment.experiment import experiment_queries
from traceql.runs.experiment.sentences import answers, duration
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
    with atomic_write(path) as draft:  # which tells at once if it cannot be written
        draft.write_text(experiment_page(found), encoding="utf-8")


def experiment_page(found: Experiment) -> str:
    """The HTML with styles, pictures and the script that sorts rows inside."""
    same = () if len(_names(found)) > 1 else ("experiment",)
    subject = Subject(found.query, experiment_queries(), "results", _HALF, same)
    with closing(PageDrawing()) as drawing:
        body = page_body(subject, SECTIONS, drawing, {ANSWER.name: _top(found)})
    return html_page(_title(found), _subtitle(found), body.links, body.html, footer=_FOOTER)


def _title(found: Experiment) -> str:
    names = _names(found)
    return f"Experiment {names[0]}" if len(names) == 1 else f"Experiments {', '.join(names)}"


def _names(found: Experiment) -> list[str]:
    return [row["name"] for row in found.sql(_EXPERIMENTS).rows()]


def _subtitle(found: Experiment) -> str:
    rows = found.sql(_EXPERIMENTS).rows()
    gpus = [row["gpu_name"] for row in found.sql(_GPUS).rows()]
    parts = [
        ", ".join(dict.fromkeys(row["model"] for row in rows)),
        *gpus,
        ", ".join(dict.fromkeys(row["bench"] for row in rows)),
        "random weights" if all(row["dummy_weights"] for row in rows) else "",
    ]
    return " · ".join(part for part in parts if part)


def _top(found: Experiment) -> str:
    """The question, the answer in words, and the best numbers."""
    asked = [row["question"] for row in found.sql(_EXPERIMENTS).rows() if row["question"]]
    questions = "".join(f"<li>{escape(one)}</li>" for one in dict.fromkeys(asked))
    told = list(answers(found))
    said = "".join(f"<p>{escape(one.text)}</p>" for one in told if not one.warns)
    warned = "".join(f"<p>{escape(one.text)}</p>" for one in told if one.warns)
    beware = f'<div class="verdict slower">{warned}</div>' if warned else ""
    (best,) = found.sql(_BEST).rows()
    tiles = "".join(_tiles(best))
    listed = f'<ul class="asked">{questions}</ul>' if questions else ""
    return f'{listed}<div class="verdict open">{said}</div>{beware}<dl class="tiles">{tiles}</dl>'


def _tiles(best: dict[str, Any]) -> list[str]:
    named = {"TTFT": ("ttft_ns", "ttft"), "TPOT": ("tpot_ns", "tpot")}
    named |= {"batch latency": ("batch_ns", "batch")}
    shown = [
        (f"lowest median {name}", duration(best[ns]), best[point])
        for name, (ns, point) in named.items()
        if best[ns] is not None
    ]
    if best["rate"] is not None:
        shown.append(("most generated tokens/s and GPU", f"{best['rate']:,.0f}", best["fastest"]))
    return [
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd><dd>{escape(point)}</dd></div>"
        for name, text, point in shown
    ]
