"""The command line of the drills: `python -m drills`, or `make drill`."""

import gc
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from drills.case import LOSS_TOLD, Case, Kind, Outcome, Verdict
from drills.kinds import kinds
from drills.process import outcomes
from drills.seeds import import_all


def verdict_table(found: Iterable[tuple[Case, Outcome]]) -> str:
    """One row per kind, as Markdown: how many cases were tried, and how many had each verdict."""
    verdicts: defaultdict[str, Counter[Verdict]] = defaultdict(Counter)
    lossy = 0
    for case, outcome in found:
        verdicts[case.kind][outcome.verdict] += 1
        lossy += outcome.reason == LOSS_TOLD
    total = sum(verdicts.values(), Counter())
    heads = ["kind", "tried", *Verdict]
    lines = [heads, ["---", *("---:" for _ in heads[1:])]]
    for kind, counts in [*sorted(verdicts.items()), ("all", total)]:
        numbers = (counts.total(), *(counts[verdict] for verdict in Verdict))
        lines.append([kind, *(f"{number:,}" for number in numbers)])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{rows}\n\nOf the right ones, {lossy:,} have a loss in their ledger."


_MOST_SMALLER = 40  # making a case smaller takes about a minute


def save_failures(
    failed: Sequence[tuple[Case, Outcome]], kinds: Mapping[str, Kind], folder: Path, *, jobs: int
) -> None:
    """Writes a folder per failure: what was found, how to repeat it, and a small input.

    Args:
        kinds: those whose inputs are made smaller.
    """
    found = dict(failed)

    def target(case: Case) -> Path:
        return folder.absolute() / f"{case.kind.replace(' ', '-')}-{case.number}"

    def write(case: Case, smaller: Sequence[str]) -> None:
        outcome = found[case]
        again = f"python -m drills --seed {case.seed} --only {case.kind!r} --case {case.number}"
        lines = [f"{outcome.verdict}: {outcome.reason}", f"command: {outcome.command}"]
        text = "\n".join([*lines, f"again: {again}", *smaller, ""])
        (target(case) / "failure.txt").write_text(text)

    def smaller(case: Case, scratch: Path) -> Outcome:
        if make := kinds[case.kind].smaller:
            lines = make(case, found[case], scratch / "small")
            (scratch / "small").rename(target(case) / "small")
            write(case, lines)
        return found[case]

    for case in found:
        target(case).mkdir(parents=True, exist_ok=True)
        write(case, [])
    cases = list(found)[:_MOST_SMALLER] if kinds else []
    for _ in outcomes(cases, smaller, jobs=jobs):
        pass


@click.command()
@click.option("--seed", default=1, show_default=True, help="Everything random follows from it.")
@click.option("--mutants", default=850, show_default=True, help="Damaged inputs of each kind.")
@click.option("--kills", default=100, show_default=True, help="Commands that are killed.")
@click.option("--only", multiple=True, type=click.Choice(list(kinds())), help="Only these kinds.")
@click.option("--case", "number", type=int, help="Only the case of this number; needs --only.")
@click.option("--jobs", type=click.IntRange(1), help="Cases at once.  [default: number of CPUs]")
@click.option("--smaller/--not-smaller", default=True, help="Look for smaller inputs that fail.")
@click.option(
    "--failures", "folder", type=click.Path(path_type=Path, file_okay=False), show_default=True,
    default=Path("build/drill"), help="Folder for what failed: input, command and verdict.",
)  # fmt: skip
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
    cases = [
        Case(kind.name, n, seed)
        for kind in chosen.values()
        for n in ([number] if number is not None else range(kind.count(mutants, kills)))
    ]
    import_all()
    for kind in chosen.values():
        kind.prepare()
    began = time.monotonic()
    found: list[tuple[Case, Outcome]] = []
    at_once = jobs or len(os.sched_getaffinity(0))
    run = lambda case, place: chosen[case.kind].run(case, place)  # noqa: E731
    for case, outcome in outcomes(cases, run, jobs=at_once):
        found.append((case, outcome))
        if outcome.verdict.is_failure or number is not None:
            click.echo(f"{case.kind} {case.number}: {outcome.verdict}: {outcome.reason}", err=True)
    click.echo(verdict_table(found))
    click.echo(f"{len(found):,} cases in {time.monotonic() - began:.0f} s; seed {seed}")
    failed = [(case, outcome) for case, outcome in found if outcome.verdict.is_failure]
    if failed:
        save_failures(failed, chosen if smaller else {}, folder, jobs=at_once)
        click.echo(f"{len(failed)} failures are saved in {folder}", err=True)
    gc.unfreeze()  # else DuckDB's bindings complain at the exit
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(prog_name="python -m drills")
