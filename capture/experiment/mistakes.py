"""What is wrong with a plan as a whole, although each of its values is possible."""

import math
from collections.abc import Iterator

from capture.experiment.arguments import misplaced
from capture.experiment.plan import Plan
from capture.experiment.points import listed, most_points
from capture.experiment.yaml_document import Place

_MOST_POINTS = 10_000
_LOAD = ("grid", "request_rate")


def mistakes(plan: Plan) -> Iterator[tuple[Place, str]]:
    """Each mistake with its place."""
    grid = plan.grid
    if grid.batch is not None and grid.concurrency is not None:
        yield ("grid", "concurrency"), "a grid has batch or concurrency, not both"
    if plan.bench == "latency" and grid.batch is None:
        yield ("grid",), "vllm bench latency measures batches; add grid.batch"
    is_finite = [math.isfinite(float(rate)) for rate in listed(grid.request_rate)]
    if grid.batch is None and grid.concurrency is None and not all(is_finite):
        yield (
            ("grid",),
            "the grid says nothing of the load (request_rate inf does not limit it); add batch, "
            "concurrency or a finite request_rate",
        )
    if grid.batch is not None and any(is_finite):
        yield _LOAD, "a batch is sent at once: request_rate goes with concurrency, or alone"
    points = most_points(grid)
    if points > _MOST_POINTS:
        yield ("grid",), f"the grid has {points:,} points; at most {_MOST_POINTS:,} can be run"
    if found := misplaced(plan.engine):
        yield ("engine", found[0]), found[1]
    for number, arguments in enumerate(grid.engine):
        if found := misplaced(arguments):
            yield ("grid", "engine", number, found[0]), found[1]
