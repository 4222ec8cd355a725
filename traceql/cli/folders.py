"""The option that names folders of a user's own queries."""

from pathlib import Path

import click

queries_option = click.option(
    "--queries",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder of queries of your own (also: TRACEQL_QUERIES).",
)
