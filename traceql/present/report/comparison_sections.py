"""The contents of the page of a comparison: its sections, and the queries of each."""

from traceql.present.report.sections import Figure, Section

ANSWER = Section(
    "verdict",
    "The answer",
    "Did it become faster or slower, and is that real?",
    (Figure("answer", unfolded=True),),
)
SETUP = Section(
    "set-up",
    "What differs in the set-up",
    "Can the two sides be compared, and what else may explain a difference?",
    (
        Figure(
            "setup",
            title="Differences of the set-up",
            empty="Both sides were set up alike, as far as the recordings tell.",
        ),
    ),
)
TOTAL = Section(
    "work-and-speed",
    "Work and speed",
    "Is one recording longer because it has more to do, or because it is slower?",
    (Figure("total"),),
)
COMPARED = Section(
    "compared",
    "What is compared",
    "How much of each recording is the answer about?",
    (Figure("coverage"), Figure("strata", title="Steps of each kind on both sides")),
)
HARDWARE = Section(
    "hardware",
    "Hardware",
    "How far is each side from the limits of its hardware, and in which state was that?",
    (Figure("efficiency"), Figure("telemetry")),
)


def of_scope(scope: str) -> Section:
    """The section on the steps of one phase."""
    steps = "steps" if scope == "unknown" else f"{scope} steps"
    given = {"scope": scope}
    return Section(
        f"steps-{scope}",
        steps.capitalize(),
        f"What made the {steps} longer or shorter, and in which layers, kernels and causes?",
        (
            Figure("waterfall", given, title=f"What made the {steps} longer or shorter"),
            Figure("steps", given | {"side": "base"}, title="The step of base"),
            Figure("steps", given | {"side": "new"}, title="The step of new"),
            Figure(
                "kernels",
                given,
                title="Which kernels became which",
                empty="Both sides use the same kernels in these steps.",
            ),
            Figure("roles", given),
            Figure("layers.apart", given, title="Did all layers move alike?"),
            Figure("layers", given),
            Figure("lost", given),
        ),
    )


UNNAMED = Section(
    "without-roles",
    "Kernels without a role",
    "What became of the kernels that belong to no known part of the model?",
    (Figure("unnamed", title="Kernels without a role, by their order"),),
)
