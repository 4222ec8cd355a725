"""The contents of a report: its sections, and the queries of each.

A section appears only if one of its queries exists and has rows, and if there is what it needs.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """The rows of a query as chart and table; `comm.*` stands for all matching queries."""

    query: str
    parameters: dict[str, Any] = field(default_factory=dict)
    title: str = ""  # instead of the query's own
    empty: str = ""  # shown if there are no rows; without it, such a figure is omitted
    unfolded: bool = False  # whether the table below the chart is open
    drawn: bool = True  # whether the page has the query's chart


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    question: str
    figures: tuple[Figure, ...]
    needs: str = ""  # SQL; without rows of it the section is left out


SECTIONS = (
    Section(
        "findings",
        "Findings",
        "What costs the most time, and what can be done about it?",
        (
            Figure("overview.headlines"),
            Figure("overview.findings", empty="No findings:"),
        ),
    ),
    Section(
        "run",
        "The run",
        "What was recorded, and how?",
        (Figure("overview.recording", title="How it was recorded"), Figure("overview.run")),
    ),
    Section(
        "time",
        "Where the time went",
        "What did each GPU spend its time on, and in which steps?",
        (
            Figure("time.breakdown", unfolded=True),
            Figure("time.lost", unfolded=True),
            Figure("steps.phases", unfolded=True),
            Figure("kernels.by_category"),
            Figure("steps.timeline"),
        ),
    ),
    Section(
        "speed",
        "Speed of light",
        "What should each step have taken at least, and where did the rest go?",
        (
            Figure("step.floor", unfolded=True),
            Figure("step.waterfall"),
            Figure("roofline.points"),
            Figure("model.mfu"),
            Figure("efficiency.roles", unfolded=True),
            Figure("efficiency.layers"),
            Figure("moe.balance"),
        ),
        needs="SELECT 1 FROM cost WHERE hbm_bytes > 0 LIMIT 1",
    ),
    Section(
        "counters",
        "Hardware counters",
        "What did the kernels move and compute, as Nsight Compute counted?",
        (
            Figure("ncu.roofline", unfolded=True),
            Figure("ncu.joined", title="Kernels of the trace and launches of the profiles"),
        ),
        needs="SELECT 1 FROM profiled_launch WHERE EXISTS (FROM trace) LIMIT 1",
    ),
    Section(
        "profile",
        "Profiled kernels",
        "Which kernels did Nsight Compute profile, and how near are they to the peaks?",
        (Figure("ncu.profile", unfolded=True),),
        needs="SELECT 1 FROM profiled_launch WHERE NOT EXISTS (FROM trace) LIMIT 1",
    ),
    Section(
        "layers",
        "Layers and roles",
        "How much time does each part of the model take, and do its layers differ?",
        (
            Figure("layers.roles"),
            Figure("layers.outliers"),
            Figure("layers.breakdown"),
            Figure("layers.heatmap"),
            Figure("steps.anatomy", title="A typical step, kernel by kernel"),
        ),
    ),
    Section(
        "kernels",
        "Kernels",
        "Which kernels take the most time, and which operators launch them?",
        (Figure("kernels.top"), Figure("ops.top"), Figure("graphs.replays")),
    ),
    Section(
        "communication",
        "Communication",
        "Do the ranks wait for each other, or transfer data?",
        (
            Figure("comm.exposed", unfolded=True),
            Figure("comm.skew", title="How late each rank was, and why", drawn=False),
            Figure("comm.waits", title="Who waited for whom, and why", drawn=False),
            Figure("comm.stragglers"),
            Figure("comm.bandwidth"),
            Figure("parallel.timeline"),
            Figure("comm.summary", title="Operations by role", drawn=False),
            Figure("comm.overlap", title="Overlap of each rank", drawn=False),
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
        "Idle time",
        "Why were the GPUs idle?",
        (
            Figure("idle.by_cause", unfolded=True),
            Figure("idle.host"),
            Figure("idle.gaps"),
            Figure("launch.queue"),
            Figure("launch.latency"),
        ),
    ),
    Section(
        "host",
        "Host time",
        "Which code, operators and calls do the hosts spend their time in?",
        (Figure("host.flame"),),
    ),
    Section(
        "memory",
        "Memory",
        "How much memory was allocated, and when?",
        (Figure("memory.peak"), Figure("memory.timeline")),
    ),
    Section(
        "serving",
        "Serving",
        "Which latencies did users see, and in which state was the hardware?",
        (
            Figure("serving.latency", unfolded=True),
            Figure("serving.requests"),
            Figure("gpu.telemetry"),
        ),
    ),
    Section(
        "quality",
        "Quality of the data",
        "Is everything that was in the trace files in the database?",
        (
            Figure(
                "quality.ledger",
                title="The ledger: files against database",
            ),
        ),
    ),
)
