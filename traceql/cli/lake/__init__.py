"""traceql lake"""

import click

from traceql.cli.command_group import CommandGroup, Subcommand

_SUBCOMMANDS = {
    "add": Subcommand("traceql.cli.lake.add", "Add runs: databases, or what traceql load takes."),
    "run": Subcommand("traceql.cli.lake.run", "Run a query over the fleet, or of each run."),
    "sql": Subcommand("traceql.cli.lake.sql", "Run a SELECT over the tables of all runs."),
    "check": Subcommand("traceql.cli.lake.check", "Check that every file is there and unchanged."),
    "compact": Subcommand("traceql.cli.lake.compact", "Merge small files into larger ones."),
    "remove": Subcommand("traceql.cli.lake.remove", "Remove runs."),
}


@click.command("lake", cls=CommandGroup, subcommands=_SUBCOMMANDS)
def command() -> None:
    """Keep many runs as Parquet files in one folder, and ask all of them at once."""
