"""traceql baseline"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.console import print_table, print_text
from traceql.errors import TraceqlError
from traceql.util.printable import one_line, printable, shortened

if TYPE_CHECKING:
    from traceql.runs.compare.sides import Run

_INPUT = click.Path(path_type=Path, readable=False)
_FOLDER = click.Path(path_type=Path)
_FILES = {".duckdb", ".db", ".json", ".gz", ".parquet", ".pftrace", ".perfetto-trace"}
_SETTINGS = ("config.", "resolved.")  # many facts, of which only differences matter
_LONGEST = 200


@click.group("baseline")
def command() -> None:
    """Keep the numbers of runs, small, for a gate to compare with."""


@command.command("save")
@click.argument("name", type=_FOLDER)
@click.argument("paths", nargs=-1, required=True, type=_INPUT, metavar="RUN...")
@click.option("--replace", is_flag=True, help="Replace the baseline of that name.")
def save(name: Path, paths: tuple[Path, ...], replace: bool) -> None:
    """Save runs as a baseline: a small folder that stands for their traces.

    RUN is a database, a run directory, a trace, or a folder with several repeats. Five repeats make
    a good baseline, of about 100 kB; a verdict needs four.

    The folder holds medians and sums by phase and size of step, and what is known of the set-up,
    without paths of the machine. It can be kept in a repository.
    """
    from traceql.runs.compare.sides import require_free, runs_of, save_baseline
    from traceql.runs.compare.verdict import LEAST_RUNS
    from traceql.runs.gate.decision import require_different

    if name.suffix.lower() in _FILES:
        raise TraceqlError(f"{name} is the name of a file; a baseline is a folder, name it first")
    require_free(name, replace=replace)
    runs = runs_of(paths, say=lambda text: click.echo(printable(text), err=True))
    require_different(runs)
    save_baseline(runs, name, replace=replace)
    click.echo(printable(f"wrote {name}: {_counted(len(runs), 'run')}, {_size(name)}"))
    if len(runs) < LEAST_RUNS:
        told = f"! {_counted(len(runs), 'run')}: a verdict needs {LEAST_RUNS}, better 5"
        print_text(told, hanging="  ", err=True)
    if titles := _not_alike(runs):
        told = f"! these runs are no repeats, and no gate will compare them: other {titles}"
        print_text(told, hanging="  ", err=True)


def _not_alike(runs: Sequence["Run"]) -> str:
    """What keeps the runs from being repeats, or from being compared at all."""
    from traceql.runs.compare.setup import Effect, differences

    facts = [
        (side, number, fact["name"], fact["value"])
        for side in ("base", "new")
        for number, run in enumerate(runs)
        for fact in run.profile["fact"].to_pylist()
    ]
    found = [one.title for one in differences(facts) if one.effect is Effect.FORBIDS]
    return ", ".join(dict.fromkeys(found))


@command.command("show")
@click.argument("name", type=_FOLDER)
def show(name: Path) -> None:
    """Show what a baseline holds: its runs, their set-up, and their steps."""
    from traceql.runs.compare.sides import manifest_of, runs_of

    manifest = manifest_of(name)
    runs = runs_of([name])
    told = f"{name}: {_counted(len(runs), 'run')}, {_size(name)}"
    print_text(one_line(told), hanging="  ", bold=True)
    saved = f"saved {manifest.saved} by traceql {manifest.traceql}"
    print_text(one_line(saved), hanging="  ")
    print_text(one_line(f"runs: {', '.join(manifest.runs)}"), hanging="  ")
    click.echo("")
    _print_facts([fact for run in runs for fact in run.profile["fact"].to_pylist()])
    _print_strata([run.profile["stratum"].to_pylist() for run in runs])


def _print_facts(facts: Sequence[Mapping[str, str]]) -> None:
    values: dict[str, set[str]] = {}
    for fact in facts:
        values.setdefault(fact["name"], set()).add(fact["value"])
    for name, found in sorted(values.items()):
        if not name.startswith(_SETTINGS):
            value = shortened(" or ".join(sorted(found)), _LONGEST)
            print_text(one_line(f"{name}: {value}"), hanging="  ")
    if settings := sum(name.startswith(_SETTINGS) for name in values):
        print_text(f"and {settings:,} settings of the model and the engine", hanging="  ")


def _print_strata(runs: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """One row for each stratum: how many runs have it, and how many steps of it."""
    import pyarrow as pa

    from traceql.result import Result

    grain = "kv" if all(any(row["grain"] == "kv" for row in run) for run in runs) else "rows"
    found: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        for row in run:
            if row["grain"] == grain:
                found.setdefault(row["stratum"], []).append(row)
    ordered = sorted(found.items(), key=lambda one: -sum(row["gpu_ns"] for row in one[1]))
    rows = [
        {
            "steps of": stratum,
            "runs": len(each),
            "fewest": min(row["units"] for row in each),
            "most": max(row["units"] for row in each),
            "mean_step_ns": sum(row["gpu_ns"] / row["units"] / row["lanes"] for row in each)
            / len(each),
        }
        for stratum, each in ordered
    ]
    if rows:
        print_table(Result(pa.Table.from_pylist(rows)))


def _size(folder: Path) -> str:
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    return f"{size / 1e3:,.0f} kB"


def _counted(count: int, singular: str) -> str:
    return f"{count} {singular}{'' if count == 1 else 's'}"
