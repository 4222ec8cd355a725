"""traceql queries"""

from pathlib import Path

import click

from traceql.cli.folders import queries_option
from traceql.errors import QueryInvalid
from traceql.printable import printable
from traceql.query import Query, catalog, query_named


@click.command("queries")
@click.argument("name", required=False)
@queries_option
def command(name: str | None, queries: tuple[Path, ...]) -> None:
    """List the queries. With NAME, show its definition, parameters, columns and units."""
    found = catalog(queries)
    if name:
        click.echo(printable(_description(query_named(name, found))))
        return
    width = max(map(len, found))
    broken: list[str] = []
    for query in found.values():
        try:
            click.echo(printable(f"{query.name:{width}}  {query.head.summary}"))
        except QueryInvalid as error:
            broken.append(str(error))
    if broken:
        raise QueryInvalid("; ".join(broken))


def _description(query: Query) -> str:
    head = query.head
    parameters = [
        (f"--{p.name}", p.type.__name__, f"{p.text}{_default(p.default)}") for p in head.parameters
    ]
    columns = [(c.name, c.type, c.text) for c in head.columns]
    parts = [
        f"{query.name}: {head.summary}",
        head.text,
        _block("Parameters", parameters),
        _block("Columns", columns),
        f"File: {query.path}",
    ]
    return "\n\n".join(part for part in parts if part)


def _default(default: object) -> str:
    """Without a default, the text of the parameter says what happens."""
    return "" if default is None else f" [default: {default}]"


def _block(title: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    first, second = (max(len(row[n]) for row in rows) for n in (0, 1))
    lines = [f"  {name:{first}}  {kind:{second}}  {text}" for name, kind, text in rows]
    return "\n".join([f"{title}:", *lines])
