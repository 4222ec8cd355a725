"""The contents of the page of an experiment: its sections, and the queries of each."""

from traceql.present.report.sections import Figure, Section

ANSWER = Section(
    "answer",
    "The answer",
    "What was asked, and what came out?",
    (Figure("points", title="The measured points", unfolded=True),),
)
SECTIONS = (
    ANSWER,
    Section(
        "latency",
        "Latency",
        "How does the time grow with the length of prompts and the number of requests?",
        (
            Figure("latency", {"metric": "ttft"}, title="Time to first token"),
            Figure("latency", {"metric": "tpot"}, title="Time per output token"),
            Figure("latency", {"metric": "e2e"}, title="End-to-end latency"),
            Figure("fit", title="The parts of the curves, and how far they are off"),
        ),
    ),
    Section(
        "throughput",
        "Throughput",
        "Which engine gives most tokens per GPU at the speed that users want?",
        (Figure("throughput"), Figure("saturation")),
    ),
    Section(
        "scaling",
        "Scaling",
        "What do more GPUs give, and what do they cost?",
        (Figure("scaling"), Figure("tp.overhead"), Figure("pp.bubble")),
    ),
    Section(
        "parts",
        "Where the time goes",
        "What does a step of each point spend its time on, and how far is it from the limits?",
        (
            Figure("profile.parts"),
            Figure("ep.exchange"),
            Figure("utilization"),
            Figure("profiles", title="Which points were profiled, and what the profiler cost"),
        ),
    ),
    Section(
        "memory-and-energy",
        "Memory and energy",
        "What is on the GPUs, and what does a token cost?",
        (Figure("memory"), Figure("energy")),
    ),
    Section(
        "failures",
        "Failures",
        "What is not in these numbers?",
        (
            Figure("ledger", title="Every repeat that the plan asks for"),
            Figure(
                "failures",
                title="What was not measured, and why",
                empty="Nothing failed, and no point was left out.",
            ),
        ),
    ),
    Section(
        "set-up",
        "Set-up",
        "On what was it measured, and was it the same throughout?",
        (Figure("setup", title="The machine and the software, and whether repeats differ"),),
    ),
)
