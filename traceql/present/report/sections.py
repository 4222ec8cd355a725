"""The contents of the pages: their sections, and the queries of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """The rows of a query as chart and table; `comm.*` stands for all matching queries.

    Attributes:
        title: instead of the query's own.
        empty: shown if there are no rows; without it, such a figure is omitted.
        unfolded: whether the table below the chart is open.
        drawn: whether the page has the query's chart.
    """

    query: str
    parameters: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    empty: str = ""
    unfolded: bool = False
    drawn: bool = True


@dataclass(frozen=True)
class Section:
    """A section, which is shown if one of its figures has rows.

    Attributes:
        needs: SQL; the section is omitted if it has no rows.
    """

    name: str
    title: str
    question: str
    figures: tuple[Figure, ...]
    needs: str = ""


def _section(
    name: str, title: str, question: str, *figures: Figure | str, needs: str = ""
) -> Section:
    found = (Figure(one) if isinstance(one, str) else one for one in figures)
    return Section(name, title, question, tuple(found), needs)


def _open(*queries: str) -> Iterator[Figure]:
    return (Figure(query, unfolded=True) for query in queries)


# --- a run ---------------------------------------------------------------------------------------

RUN_SECTIONS = (
    _section(
        "findings", "Findings", "What costs the most time, and what can be done about it?",
        "overview.headlines",
        Figure("overview.findings", empty="No findings:"),
    ),
    _section(
        "run", "The run", "What was recorded, and how?",
        Figure("overview.recording", title="How it was recorded"),
        "overview.run",
    ),
    _section(
        "time", "Where the time went", "What did each GPU spend its time on, and in which steps?",
        *_open("time.breakdown", "time.lost", "steps.phases"),
        *("kernels.by_category", "steps.timeline"),
    ),
    _section(
        "speed", "Speed of light",
        "What should each step have taken at least, and where did the rest go?",
        *_open("step.floor"),
        *("step.waterfall", "roofline.points", "model.mfu"),
        *_open("efficiency.roles"),
        *("efficiency.layers", "moe.balance"),
        needs="SELECT 1 FROM cost WHERE hbm_bytes > 0 LIMIT 1",
    ),
    _section(
        "counters", "Hardware counters",
        "What did the kernels move and compute, as Nsight Compute counted?",
        *_open("ncu.roofline"),
        Figure("ncu.joined", title="Kernels of the trace and launches of the profiles"),
        needs="SELECT 1 FROM profiled_launch WHERE EXISTS (FROM trace) LIMIT 1",
    ),
    _section(
        "profile", "Profiled kernels",
        "Which kernels did Nsight Compute profile, and how near are they to the peaks?",
        *_open("ncu.profile"),
        needs="SELECT 1 FROM profiled_launch WHERE NOT EXISTS (FROM trace) LIMIT 1",
    ),
    _section(
        "layers", "Layers and roles",
        "How much time does each part of the model take, and do its layers differ?",
        *("layers.roles", "layers.outliers", "layers.breakdown", "layers.heatmap"),
        Figure("steps.anatomy", title="A typical step, kernel by kernel"),
    ),
    _section(
        "kernels", "Kernels", "Which kernels take the most time, and which operators launch them?",
        *("kernels.top", "ops.top", "graphs.replays"),
    ),
    _section(
        "communication", "Communication", "Do the ranks wait for each other, or transfer data?",
        *_open("comm.exposed"),
        Figure("comm.skew", title="How late each rank was, and why", drawn=False),
        Figure("comm.waits", title="Who waited for whom, and why", drawn=False),
        *("comm.stragglers", "comm.bandwidth", "parallel.timeline"),
        Figure("comm.summary", title="Operations by role", drawn=False),
        Figure("comm.overlap", title="Overlap of each rank", drawn=False),
        "comm.*",
    ),
    _section(
        "parallelism", "Parallelism", "What do tensor, pipeline, expert and data parallelism cost?",
        *("tp.overhead", "pp.bubble", "ep.balance", "dp.sync", "step.critical"),
    ),
    _section(
        "idle", "Idle time", "Why were the GPUs idle?",
        *_open("idle.by_cause"),
        *("idle.host", "idle.gaps", "launch.queue", "launch.latency"),
    ),
    _section(
        "host", "Host time", "Which code, operators and calls do the hosts spend their time in?",
        "host.flame",
    ),
    _section(
        "memory", "Memory", "How much memory was allocated, and when?",
        *("memory.peak", "memory.timeline"),
    ),
    _section(
        "serving", "Serving", "Which latencies did users see, and in which state was the hardware?",
        *_open("serving.latency"),
        *("serving.requests", "gpu.telemetry"),
    ),
    _section(
        "quality", "Quality of the data",
        "Is everything that was in the trace files in the database?",
        Figure("quality.ledger", title="The ledger: files against database"),
    ),
)  # fmt: skip


# --- a comparison --------------------------------------------------------------------------------

VERDICT = "verdict"  # the section with the answer


def comparison_sections(scopes: Sequence[str], *, has_databases: bool) -> Iterator[Section]:
    """The sections for the phases of steps that are compared.

    Args:
        has_databases: whether both sides have more than a saved baseline.
    """
    yield _section(
        VERDICT, "The answer", "Did it become faster or slower, and is the change significant?",
        *_open("answer"),
    )  # fmt: skip
    yield _section(
        "set-up", "What differs in the set-up",
        "Can the two sides be compared, and what else may explain a difference?",
        Figure(
            "setup", title="Differences of the set-up", empty="No difference of set-up is known."
        ),
    )  # fmt: skip
    yield from map(_steps_section, scopes)
    yield _section(
        "work-and-speed", "Work and speed",
        "Is one recording longer because it has more to do, or because it is slower?",
        "total",
    )  # fmt: skip
    yield _section(
        "compared", "What is compared", "How much of each recording is the answer about?",
        "coverage",
        Figure("strata", title="Steps of each kind on both sides"),
    )  # fmt: skip
    if has_databases:
        yield _section(
            "hardware", "Hardware",
            "How far is each side from the limits of its hardware, and in which state was that?",
            *("efficiency", "telemetry"),
        )  # fmt: skip
    yield _section(
        "without-roles", "Kernels without a role",
        "What became of the kernels that belong to no known part of the model?",
        Figure("unnamed", title="Kernels without a role, by their order"),
    )  # fmt: skip


def _steps_section(scope: str) -> Section:
    steps = "steps" if scope == "unknown" else f"{scope} steps"
    given = {"scope": scope}
    return _section(
        f"steps-{scope}", steps.capitalize(),
        f"What made the {steps} longer or shorter, and in which layers, kernels and causes?",
        Figure("waterfall", given, title=f"What made the {steps} longer or shorter"),
        Figure("steps", given | {"side": "base"}, title="The step of base"),
        Figure("steps", given | {"side": "new"}, title="The step of new"),
        Figure(
            "kernels", given, title="Kernels that were replaced",
            empty="Both sides use the same kernels in these steps.",
        ),
        Figure("roles", given),
        Figure("layers.apart", given, title="Did all layers change alike?"),
        Figure("layers", given),
        Figure("lost", given),
    )  # fmt: skip


# --- an experiment -------------------------------------------------------------------------------

ANSWER = "answer"  # the section with the answer
EXPERIMENT_SECTIONS = (
    _section(
        ANSWER, "The answer", "What was the question, and what is the result?",
        Figure("points", title="The measured points", unfolded=True),
    ),
    _section(
        "latency", "Latency",
        "How does the time grow with the length of prompts and the number of requests?",
        Figure("latency", {"metric": "ttft"}, title="Time to first token"),
        Figure("latency", {"metric": "tpot"}, title="Time per output token"),
        Figure("latency", {"metric": "e2e"}, title="End-to-end latency"),
        Figure("fit", title="The parts of the curves, and their errors"),
    ),
    _section(
        "throughput", "Throughput",
        "Which engine gives most tokens per GPU at the speed that users want?",
        *("throughput", "saturation"),
    ),
    _section(
        "scaling", "Scaling", "What do more GPUs give, and what do they cost?",
        *("scaling", "tp.overhead", "pp.bubble"),
    ),
    _section(
        "parts", "Where the time goes",
        "What does a step of each point spend its time on, and how far is it from the limits?",
        *("profile.parts", "ep.exchange", "utilization"),
        Figure("profiles", title="The profiled points, and the overhead of the profiler"),
    ),
    _section(
        "memory-and-energy", "Memory and energy",
        "What is on the GPUs, and what does a token cost?",
        *("memory", "energy"),
    ),
    _section(
        "failures", "Failures", "What is missing in these numbers?",
        Figure("ledger", title="Every repeat of the plan"),
        Figure(
            "failures",
            title="What was not measured, and why",
            empty="Nothing failed, and no point was skipped.",
        ),
    ),
    _section(
        "set-up", "Set-up", "Where was it measured, and did the set-up stay the same?",
        Figure("setup", title="The machine and the software, and whether repeats differ"),
    ),
)  # fmt: skip
