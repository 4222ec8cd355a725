"""Commands that write, killed at any moment: the old file stays, or the new one is whole."""

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from drills.command import ROOT, executed, started
from drills.commands import COMMANDS, LOADED, Writing, fill, loaded_database, wrong_database
from drills.judging import changes, judged, state
from drills.kind import Case, Kind
from drills.outcome import Outcome, Verdict

# Writes a file of a run directory over and over, as `traceql capture` does.
_CAPTURE = """
import sys
from pathlib import Path
from capture.run_directory import atomic_write, write_json
from capture.run_directory import write_run_json
folder = Path(sys.argv[1])
for number in range(int(sys.argv[2])):
    write_run_json(folder, {"number": number, "filler": ["x"] * 20_000}, status="incomplete")
    write_json(folder / "metrics.json", {"number": number, "filler": ["y"] * 20_000})
    with atomic_write(folder / "trace.json.gz") as draft:
        draft.write_bytes(b"begin" + bytes(1_000_000) + b"end")
"""
_CAPTURED = ("run.json", "metrics.json", "trace.json.gz")
_WRITERS = (*COMMANDS, "load", "load into a database", "capture")


@cache
def _seconds(name: str) -> float:
    """How long a command takes, start-up included."""
    folder = loaded_database().parent.with_name(f"timed-{name.replace(' ', '-')}")
    folder.mkdir()
    fill(folder, COMMANDS[name])
    began = time.monotonic()
    executed(COMMANDS[name].arguments, folder)
    return time.monotonic() - began


def prepare() -> None:
    for name in COMMANDS:
        _seconds(name)


def run(case: Case, folder: Path) -> Outcome:
    random = case.random
    name = _WRITERS[case.number % len(_WRITERS)]
    place = folder / "work"
    place.mkdir()
    if name == "capture":
        return _capture(place, random.uniform(0.1, 1.5))
    return _command(place, COMMANDS[name], random.uniform(0, _seconds(name)), random.random() < 0.5)


def _command(place: Path, writing: Writing, after_s: float, alone: bool) -> Outcome:
    """Kills a command, then runs it again.

    Args:
        alone: only the command itself is killed, and not the processes that it has started.
    """
    fill(place, writing)
    before = state(place)
    process = started(writing.arguments, place)
    time.sleep(after_s)
    (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
    process.wait()
    target = place / writing.target
    checks = {LOADED: wrong_database, writing.target: writing.wrong}
    for name in checks.keys() & set(changes(before, state(place))):
        partly = (place / name).is_dir()  # of a folder, each file is whole or absent
        if not partly and (wrong := checks[name](place / name)):
            return Outcome(Verdict.WRONG, f"killed after {after_s:.2f} s: {wrong}")
    written = [writing.target, *(f"{writing.target}/{path.name}" for path in _files(target))]
    ended = executed(writing.arguments, place)
    written += [f"{writing.target}/{path.name}" for path in _files(target)]
    outcome = judged(
        ended, place, before, written=written, disagreement=lambda: writing.wrong(target),
        must_succeed=True,
    )  # fmt: skip
    reason = f"killed after {after_s:.2f} s, then: {outcome.reason}" if outcome.reason else ""
    return Outcome(outcome.verdict, reason, outcome.command)


def _files(folder: Path) -> list[Path]:
    """The files of a report; drafts have other names."""
    return list(folder.glob("[!.]*")) if folder.is_dir() else []


def _capture(place: Path, after_s: float) -> Outcome:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _CAPTURE, str(place)]
    process = subprocess.Popen([*command, "1000000"], env=environment, process_group=0)
    time.sleep(after_s)
    process.kill()
    process.wait()
    for name in _CAPTURED:
        content = (place / name).read_bytes() if (place / name).exists() else None
        ends = (b"end", b"}\n")
        if content is not None and not content.endswith(ends):
            return Outcome(Verdict.WRONG, f"killed after {after_s:.2f} s: {name} is cut off")
    subprocess.run([*command, "1"], env=environment, check=True)
    left = sorted(path.name for path in place.iterdir())
    if left != sorted(_CAPTURED):
        return Outcome(Verdict.WRONG, f"after the next run the folder has {left}")
    return Outcome(Verdict.RIGHT)


KIND = Kind("kill", lambda amounts: amounts.kills, run, prepare=prepare)
