"""traceql experiment report"""

from pathlib import Path

import click

from traceql.cli.experiment.load import say, warn
from traceql.util.printable import printable


@click.command("report")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="experiment.html",
    show_default=True,
    help="The page to write.",
)
def command(results: tuple[Path, ...], output: Path) -> None:
    """Write one self-contained HTML page: question, answer, curves, parts, failures, set-up.

    RESULTS is a database of traceql experiment load, or folders of results.
    """
    from traceql.present.report.experiment import write_experiment
    from traceql.runs.experiment import experiment

    with experiment(*results, say=say, warn=warn) as opened:
        write_experiment(opened, output)
    click.echo(printable(f"wrote {output}"), err=True)
