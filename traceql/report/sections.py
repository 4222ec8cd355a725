"""What a report says, in order: sections, and the canned queries that fill them.

A section appears where one of its queries is known and has rows.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A query's rows, as chart and table; `comm.*` stands for all queries that match."""

    query: str
    parameters: dict[str, Any] = field(default_factory=dict)
    title: str = ""  # in place of the query's own
    empty: str = ""  # what no rows mean; it is left out then where this is empty
    unfolded: bool = False  # whether the table is open beside the chart


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    question: str
    figures: tuple[Figure, ...]


SECTIONS = (
    Section(
        "findings",
        "Findings",
        "What costs most, and what to try?",
        (
            Figure("overview.headlines"),
            Figure(
                "overview.findings", empty="Nothing costs more than the thresholds of finding_rule."
            ),
        ),
    ),
    Section(
        "run",
        "The run",
        "What was recorded?",
        (Figure("overview.recording", title="How it was recorded"), Figure("overview.run")),
    ),
    Section(
        "time",
        "Where time went",
        "What did each GPU do, and in which steps?",
        (
            Figure("time.breakdown", unfolded=True),
            Figure("steps.phases", unfolded=True),
            Figure("steps.timeline"),
            Figure("kernels.by_category"),
        ),
    ),
    Section(
        "layers",
        "Layers and roles",
        "Which part of the model costs how much, and do its layers differ?",
        (
            Figure("layers.roles"),
            Figure("layers.breakdown", {"phase": "decode"}, "Decode: GPU time by layer and role"),
            Figure("layers.breakdown", {"phase": "prefill"}, "Prefill: GPU time by layer and role"),
            Figure(
                "layers.breakdown", {"phase": "mixed"}, "Mixed steps: GPU time by layer and role"
            ),
            Figure("layers.heatmap"),
            Figure("layers.outliers"),
            Figure("steps.anatomy", title="One decode step, kernel by kernel"),
        ),
    ),
    Section(
        "kernels",
        "Kernels",
        "Which kernels take the time, and who launches them?",
        (Figure("kernels.top"), Figure("ops.top"), Figure("graphs.replays")),
    ),
    Section(
        "communication",
        "Communication",
        "Do ranks move bytes, or wait for each other?",
        (
            Figure("comm.skew", unfolded=True),
            Figure("comm.summary"),
            Figure("comm.bandwidth"),
            Figure("comm.exposed"),
            Figure("comm.stragglers"),
            Figure("comm.*"),
        ),
    ),
    Section(
        "parallelism",
        "Parallelism",
        "What do tensor, pipeline, expert and data parallelism cost?",
        (
            Figure("tp.overhead"),
            Figure("pp.bubble"),
            Figure("ep.balance"),
            Figure("dp.sync"),
            Figure("step.critical"),
        ),
    ),
    Section(
        "idle",
        "Idle GPU, and why",
        "What was the GPU waiting for?",
        (
            Figure("idle.by_cause", unfolded=True),
            Figure("idle.host"),
            Figure("idle.gaps"),
            Figure("launch.queue"),
            Figure("launch.latency"),
        ),
    ),
    Section(
        "memory",
        "Memory",
        "How much was allocated, and when?",
        (Figure("memory.peak"), Figure("memory.timeline")),
    ),
    Section(
        "serving",
        "Serving",
        "What did users see, and on which hardware state?",
        (
            Figure("serving.latency", unfolded=True),
            Figure("serving.requests"),
            Figure("gpu.telemetry"),
        ),
    ),
    Section(
        "quality",
        "Can it be trusted?",
        "What was in the files, and what is in the database?",
        (Figure("quality.ledger", title="The ledger: what was in the files, what was kept"),),
    ),
)
