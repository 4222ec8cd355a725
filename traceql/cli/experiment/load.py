"""traceql experiment load"""

from pathlib import Path

import click

from traceql.cli.console import print_text
from traceql.util.printable import one_line, printable


@click.command("load")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Database file, such as results.duckdb. If it exists, it is replaced.",
)
def command(results: tuple[Path, ...], output: Path) -> None:
    """Load the results of one experiment or several into one DuckDB file.

    RESULTS are folders that traceql experiment run has written, also while it is running or after
    it was stopped. Every point and repeat of the plan is in the database: complete, failed, missing
    or left out. The traces of profiled points are loaded too, which takes seconds for each.
    """
    from traceql.runs.experiment.load import load_experiments

    load_experiments(list(results), output, say=say, warn=warn)
    click.echo(printable(f"wrote {output}; next: traceql experiment show {output}"), err=True)


def say(text: str) -> None:
    click.echo(printable(text), err=True)


def warn(text: str) -> None:
    print_text(f"warning: {one_line(text)}", hanging="  ", err=True)
