"""traceql experiment"""

from collections.abc import Mapping
from typing import Any

import click

from traceql.cli.command_group import CommandGroup, Subcommand

_SUBCOMMANDS = {
    "run": Subcommand("capture.cli.experiment", "Measure the points of a plan, again and again."),
    "load": Subcommand(
        "traceql.cli.experiment.load", "Load the results of experiments into one DuckDB file."
    ),
    "show": Subcommand(
        "traceql.cli.experiment.show", "The answer, the points, what failed; queries and SQL."
    ),
    "report": Subcommand("traceql.cli.experiment.report", "Write one page with all curves."),
    "peaks": Subcommand(
        "traceql.cli.experiment.peaks",
        "The machine's own limits: measure, import and show them.",
    ),
}


@click.command("experiment", cls=CommandGroup, subcommands=_SUBCOMMANDS)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Answer a question by measuring: latency curves, scaling, what the machine can reach."""
    ctx.obj = weight_bytes  # for `run`, whose package must not import what knows models


def weight_bytes(config: Mapping[str, Any], *, tp: int, pp: int, dp: int, ep: bool) -> float | None:
    """Bytes that the fullest GPU needs for weights, at least; None if that is not known."""
    from traceql.errors import UnknownModel
    from traceql.plan.advise.layouts import Layout, least_weight_bytes
    from traceql.plan.advise.models import described

    try:
        model = described("the model", config)
    except UnknownModel:
        return None
    return least_weight_bytes(model, Layout(tp, pp, dp, ep))
