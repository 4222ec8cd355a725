"""traceql queries"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from traceql.cli.completion import complete_queries
from traceql.cli.console import print_text
from traceql.cli.folders import queries_option
from traceql.errors import QueryInvalid
from traceql.sql.query import Query, catalog, query_named
from traceql.util.printable import one_line, printable

# What most people ask first, in the order in which it leads to a cause.
_FIRST = (
    *("overview.findings", "time.breakdown", "time.lost", "steps.phases"),
    *("layers.roles", "kernels.top", "comm.waits", "idle.host"),
)
_START, _OTHERS = "Start with", "Others"
# Topics, each with the beginnings of the names of its queries.
_TOPICS: Mapping[str, Sequence[str]] = {
    _START: (),
    "The run": ("overview", "quality", "gpu", "serving"),
    "Steps": ("time", "step", "steps", "graphs", "whatif"),
    "Layers": ("layers", "modules", "model", "moe"),
    "Kernels": ("kernels", "ops", "launch", "annotations", "memory"),
    "Communication": ("comm", "parallel", "tp", "pp", "dp", "ep"),
    "Idle time and the host": ("idle", "host"),
    "Limits of the hardware": ("efficiency", "roofline", "ncu"),
    _OTHERS: (),
}


@click.command("queries")
@click.argument("name", required=False, shell_complete=complete_queries)
@queries_option
def command(name: str | None, queries: tuple[Path, ...]) -> None:
    """List the queries by topic. With NAME, show its definition, parameters, columns and units."""
    found = catalog(queries)
    if name:
        _describe(query_named(name, found))
        return
    by_topic: dict[str, list[Query]] = {topic: [] for topic in _TOPICS}
    ordered = [found[name] for name in dict.fromkeys((*_FIRST, *found)) if name in found]
    for query in ordered:
        by_topic[_topic(query)].append(query)
    width = max(map(len, found))
    broken: list[str] = []
    for topic, members in by_topic.items():
        broken += _print_topic(topic, members, width)
    if broken:
        raise QueryInvalid("; ".join(broken))


def _topic(query: Query) -> str:
    if query.name in _FIRST:
        return _START
    begins = query.name.split(".")[0]
    return next((topic for topic, names in _TOPICS.items() if begins in names), _OTHERS)


def _print_topic(topic: str, members: Sequence[Query], width: int) -> list[str]:
    """Prints a line for each query; returns what is wrong with those that cannot be listed."""
    broken: list[str] = []
    rows: list[tuple[str, str]] = []
    for query in members:
        try:
            rows.append((query.name, query.head.summary))
        except QueryInvalid as error:
            broken.append(str(error))
    if rows:
        click.echo(f"{topic}:" if topic == _START else f"\n{topic}:")
    for name, summary in rows:
        _print_row([name], [width], summary, indent="  ")
    return broken


def _describe(query: Query) -> None:
    head = query.head
    print_text(one_line(f"{query.name}: {head.summary}"))
    for paragraph in head.text.split("\n\n") if head.text else ():
        click.echo()
        for item in _items(paragraph):
            print_text(one_line(item), hanging="  " if item.startswith("- ") else "")
    _print_block(
        "Parameters",
        [
            (f"--{p.name}", p.type.__name__, f"{p.meaning}{_default(p.default)}")
            for p in head.parameters
        ],
    )
    _print_block("Columns", [(c.name, c.type, c.text) for c in head.columns])
    click.echo(f"\nFile: {printable(str(query.path))}")


def _items(paragraph: str) -> list[str]:
    """The items of a list, or the paragraph as it is."""
    if not paragraph.startswith("- "):
        return [paragraph]
    return [f"- {item}" for item in paragraph.removeprefix("- ").split("\n- ")]


def _default(default: object) -> str:
    """Without a default, the text of the parameter says what happens."""
    return "" if default is None else f" [default: {default}]"


def _print_block(title: str, rows: list[tuple[str, str, str]]) -> None:
    if not rows:
        return
    click.echo(f"\n{title}:")
    widths = [max(len(row[n]) for row in rows) for n in (0, 1)]
    for name, kind, text in rows:
        _print_row([name, kind], widths, text, indent="  ")


def _print_row(names: list[str], widths: list[int], text: str, *, indent: str = "") -> None:
    """Names in columns, then a text beside them; below them where the terminal is narrow."""
    aligned = [f"{printable(name):{width}}  " for name, width in zip(names, widths, strict=True)]
    print_text(one_line(text), before=indent + "".join(aligned))
