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
    verdict, reason = _judged(ended, folder, before, written, disagreement, must_succeed)
    return Outcome(verdict, reason, ended.command)


def _judged(
    ended: Ended,
    folder: Path,
    before: State,
    written: Collection[str],
    disagreement: Callable[[], str | None],
    must_succeed: bool,
) -> tuple[Verdict, str]:
    if ended.status is None:
        return Verdict.HANG, "it did not end"
    said = ended.err.decode(errors="replace")
    if ended.status not in (0, 1, 2) or _CRASH.search(ended.err + ended.out):
        return Verdict.TRACEBACK, f"status {ended.status}: {_last_line(said)}"
    shown = said + ended.out.decode(errors="replace")
    if control := _CONTROL.search(shown):
        return Verdict.WRONG, f"it printed the control character {control[0]!r}: {_last_line(said)}"
    after = state(folder)
    allowed = [LOADED, *(written if ended.status == 0 else ())]
    changed = changes(before, after)
    if odd := [name for name in changed if name not in allowed]:
        return Verdict.WRONG, f"status {ended.status}, and it left or changed {', '.join(odd)}"
    if LOADED in changed and (wrong := wrong_database(folder / LOADED)):
        return Verdict.WRONG, f"status {ended.status}, and {LOADED} is not what it was: {wrong}"
    if ended.status == 0:
        wrong = disagreement()
        return (Verdict.WRONG, wrong) if wrong else (Verdict.RIGHT, "")
    if ended.status == 1 and not _is_one_line(said):
        return Verdict.WRONG, f"the error is not one line: {said[:300]!r}"
    if must_succeed:
        return Verdict.WRONG, f"it refused a valid input: {_last_line(said)}"
    return Verdict.CLEAN_ERROR, _last_line(said)


def _is_one_line(said: str) -> bool:
    """Whether a command says one thing on stderr, after its progress if it takes long."""
    lines = [line for line in said.splitlines() if not line.endswith(" ...")]
    return len(lines) == 1 and lines[0].startswith("traceql: ")


def changes(before: State, after: State) -> list[str]:
    """The files and folders that differ."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
