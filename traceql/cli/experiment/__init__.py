"""traceql experiment"""

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
def command() -> None:
    """Answer a question by measuring: latency curves, scaling, what the machine can reach."""
