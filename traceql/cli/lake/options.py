"""Options of all commands of a lake."""

import click

lake_option = click.option(
    "--lake",
    "lake",
    required=True,
    metavar="DIR",
    envvar="TRACEQL_LAKE",
    show_envvar=True,
    help="Folder of the lake.",
)
where_option = click.option(
    "--where",
    metavar="CONDITION",
    help="Only runs of which this holds, in SQL over table lake_run: \"model = 'qwen3-32b'\".",
)
FORMATS = ("table", "csv", "json", "parquet")
format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Output format, written to stdout. table is for people: readable units; empty columns and "
    "columns that do not fit are hidden.",
)
