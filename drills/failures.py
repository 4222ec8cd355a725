"""Saves what failed, so that it can be repeated and become a test."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from drills.forks import outcomes
from drills.kind import Case, Kind
from drills.outcome import Outcome

_MOST_SMALLER = 40  # making a case smaller takes about a minute


def save(
    failed: Sequence[tuple[Case, Outcome]], kinds: Mapping[str, Kind], folder: Path, *, jobs: int
) -> None:
    """Writes a folder per failure: what was found, how to repeat it, and a small input.

    Args:
        kinds: those whose inputs are made smaller.
    """
    found = dict(failed)
    for case, outcome in failed:
        _target(folder, case).mkdir(parents=True, exist_ok=True)
        _write(folder, case, outcome, [])

    if not kinds:
        return

    def smaller(case: Case, scratch: Path) -> Outcome:
        make = kinds[case.kind].smaller
        if make:
            lines = make(case, found[case], scratch / "small")
            (scratch / "small").rename(_target(folder, case) / "small")
            _write(folder, case, found[case], lines)
        return found[case]

    for _ in outcomes(list(found)[:_MOST_SMALLER], smaller, jobs=jobs):
        pass


def _target(folder: Path, case: Case) -> Path:
    return folder.absolute() / f"{case.kind.replace(chr(32), chr(45))}-{case.number}"


def _write(folder: Path, case: Case, outcome: Outcome, smaller: Sequence[str]) -> None:
    again = f"python -m drills --seed {case.seed} --only {case.kind!r} --case {case.number}"
    lines = [
        f"{outcome.verdict}: {outcome.reason}", f"command: {outcome.command}", f"again: {again}",
        *smaller,
    ]  # fmt: skip
    (_target(folder, case) / "failure.txt").write_text("\n".join(lines) + "\n")
