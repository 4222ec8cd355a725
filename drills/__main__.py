"""The command line of the drills: `python -m drills`, or `make drill`."""

import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from drills import failures, table
from drills.forks import outcomes
from drills.kind import Amounts, Case
from drills.outcome import Outcome
from drills.registry import kinds
from drills.warm import import_all


@click.command()
@click.option("--seed", default=1, show_default=True, help="Everything random follows from it.")
@click.option(
    "--mutants", default=850, show_default=True, help="Damaged inputs of each kind of input."
)
@click.option("--kills", default=100, show_default=True, help="Commands that are killed.")
@click.option("--only", multiple=True, type=click.Choice(list(kinds())), help="Only these kinds.")
@click.option("--case", "number", type=int, help="Only the case of this number; needs --only.")
@click.option("--jobs", type=click.IntRange(1), help="Cases at once.  [default: number of CPUs]")
@click.option(
    "--smaller/--not-smaller",
    default=True,
    help="Whether to look for smaller inputs that fail too.",
)
@click.option(
    "--failures",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/drill"),
    show_default=True,
    help="Folder for what failed: input, command and verdict.",
)
def main(
    seed: int,
    mutants: int,
    kills: int,
    only: Sequence[str],
    number: int | None,
    jobs: int | None,
    smaller: bool,
    folder: Path,
) -> None:
    """Damages inputs, kills commands and attacks interfaces; exit status 1 if traceql fails one."""
    if number is not None and len(only) != 1:
        raise click.UsageError("--case needs --only with one kind")
    chosen = {name: kind for name, kind in kinds().items() if not only or name in only}
    amounts = Amounts(mutants, kills)
    cases = [
        Case(kind.name, n, seed)
        for kind in chosen.values()
        for n in ([number] if number is not None else range(kind.count(amounts)))
    ]
    import_all()
    for kind in chosen.values():
        kind.prepare()
    began = time.monotonic()
    found: list[tuple[Case, Outcome]] = []
    at_once = jobs or table.processors()
    run = lambda case, place: chosen[case.kind].run(case, place)  # noqa: E731
    for case, outcome in outcomes(cases, run, jobs=at_once):
        found.append((case, outcome))
        if outcome.verdict.is_failure or number is not None:
            click.echo(f"{case.kind} {case.number}: {outcome.verdict}: {outcome.reason}", err=True)
    click.echo(table.text(found))
    click.echo(f"{len(found):,} cases in {time.monotonic() - began:.0f} s; seed {seed}")
    failed = [(case, outcome) for case, outcome in found if outcome.verdict.is_failure]
    if failed:
        failures.save(failed, chosen if smaller else {}, folder, jobs=at_once)
        click.echo(f"{len(failed)} failures are saved in {folder}", err=True)
    gc.unfreeze()  # else DuckDB's bindings complain at the exit
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(prog_name="python -m drills")
