"""The option for folders with the user's own queries."""

from pathlib import Path

import click

queries_option = click.option(
    "--queries",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder with your own queries (also: TRACEQL_QUERIES).",
)
