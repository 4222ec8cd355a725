"""traceql experiment peaks"""

import click

from traceql.cli.command_group import CommandGroup, Subcommand

_SUBCOMMANDS = {
    "measure": Subcommand(
        "capture.cli.peaks",
        "Measure what the GPUs can reach: memory, products, communication.",
    ),
    "import": Subcommand(
        "traceql.cli.experiment.peaks.import_",
        "Make a peaks.json of files of nccl-tests and nvbandwidth.",
    ),
    "show": Subcommand(
        "traceql.cli.experiment.peaks.show",
        "Show all of a peaks.json, with bandwidths and fits.",
    ),
}


@click.command("peaks", cls=CommandGroup, subcommands=_SUBCOMMANDS)
def command() -> None:
    """The machine's own limits: products of matrices, memory, links and collectives.

    peaks.json has what was measured. traceql load finds it in a run directory, or takes it with
    --peaks.
    """
