"""traceql cut"""

from pathlib import Path
from typing import Any

import click

from traceql.cli.excerpt_options import part_of, part_options
from traceql.util.printable import one_line


@click.command("cut")
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Database file to write. An excerpt that is there is replaced, another database is not.",
)
@part_options()
def command(database: Path, output: Path, **part: Any) -> None:
    """Cut a part of a run out of a database: a span of time, steps, or a sample.

    The output is a database with the same tables, so that all commands work on it. It says which
    part of the run it has, and so does every command that reads it. Steps and layers are those that
    were found in the whole run; a step that the part does not have whole is left out, with its
    kernels kept.
    """
    from traceql.database.excerpt import cut

    choice = part_of(part).choice
    if choice is None:
        raise click.UsageError("say which part: --from and --to, or --steps, or --sample")
    text = cut(database, output, choice)
    size_mb = output.stat().st_size / 1e6
    click.echo(one_line(f"wrote {output}, {size_mb:,.1f} MB: {text}"), err=True)
