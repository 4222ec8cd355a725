"""Judges how a command that writes a file has ended."""

import re
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from pathlib import Path

from drills.case import Outcome, Verdict
from drills.process import Ended
from drills.writers import LOADED, wrong_database

_CRASH = re.compile(rb"Traceback|panicked|internal error|please report|Segmentation|Aborted", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")

State = Mapping[str, str]


def state(folder: Path) -> State:
    """All files and folders below `folder`, hidden ones too, with a digest of their content."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


def judged(
    ended: Ended,
    folder: Path,
    before: State,
    *,
    written: Collection[str],
    disagreement: Callable[[], str | None],
    must_succeed: bool = False,
) -> Outcome:
    """The outcome of a command that ran in `folder`.

    Args:
        before: the state of `folder` before the command. Its database may get tables whenever a
            command reads them first, but keeps its rows.
        written: the files that it may create or change if it succeeds.
        disagreement: what is wrong with these files; None if they are right. Called on success.
        must_succeed: an error is wrong, because the input is valid.
    """

    def outcome(verdict: Verdict, reason: str) -> Outcome:
        return Outcome(verdict, reason, ended.command)

    status, said = ended.status, ended.err.decode(errors="replace")
    last_line = (said.strip().splitlines() or [""])[-1]
    if status is None:
        return outcome(Verdict.HANG, "it did not end")
    if status not in (0, 1, 2) or _CRASH.search(ended.err + ended.out):
        return outcome(Verdict.TRACEBACK, f"status {status}: {last_line}")
    if control := _CONTROL.search(said + ended.out.decode(errors="replace")):
        return outcome(Verdict.WRONG, f"it printed the character {control[0]!r}: {last_line}")
    allowed = [LOADED, *(written if status == 0 else ())]
    changed = changes(before, state(folder))
    if odd := [name for name in changed if name not in allowed]:
        return outcome(Verdict.WRONG, f"status {status}, and it left or changed {', '.join(odd)}")
    if LOADED in changed and (wrong := wrong_database(folder / LOADED)):
        return outcome(Verdict.WRONG, f"status {status}, and {LOADED} is not what it was: {wrong}")
    if status == 0:
        wrong = disagreement()
        return outcome(Verdict.WRONG if wrong else Verdict.RIGHT, wrong or "")
    if status == 1 and not _is_one_line(said):
        return outcome(Verdict.WRONG, f"the error is not one line: {said[:300]!r}")
    if must_succeed:
        return outcome(Verdict.WRONG, f"it refused a valid input: {last_line}")
    return outcome(Verdict.CLEAN_ERROR, last_line)


def _is_one_line(said: str) -> bool:
    """Whether a command says one thing on stderr, after its progress if it takes long."""
    lines = [line for line in said.splitlines() if not line.endswith(" ...")]
    return len(lines) == 1 and lines[0].startswith("traceql: ")


def changes(before: State, after: State) -> list[str]:
    """The files and folders that differ."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
