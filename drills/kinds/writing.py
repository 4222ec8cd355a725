"""Commands that are killed, run out of space or run in parallel while they write."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from drills.case import Case, Kind, Outcome, Verdict
from drills.database_oracle import admitted_losses, rows
from drills.judging import changes, judged, state
from drills.process import ROOT, executed, started
from drills.seeds import seed_traces
from drills.writers import COMMANDS, LOADED, fill, loaded_database, wrong_database

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


def time_commands() -> None:
    for name in COMMANDS:
        _seconds(name)


def run_kill(case: Case, folder: Path) -> Outcome:
    """Kills a command, then runs it again."""
    random = case.random
    name = _WRITERS[case.number % len(_WRITERS)]
    place = folder / "work"
    place.mkdir()
    if name == "capture":
        return _capture(place, random.uniform(0.1, 1.5))
    writing, after_s = COMMANDS[name], random.uniform(0, _seconds(name))
    fill(place, writing)
    before = state(place)
    process = started(writing.arguments, place)
    time.sleep(after_s)
    # The command alone, or with the processes that it has started.
    (os.kill if random.random() < 0.5 else os.killpg)(process.pid, signal.SIGKILL)
    process.wait()
    target = place / writing.target
    checks = {LOADED: wrong_database, writing.target: writing.wrong}
    for name in checks.keys() & set(changes(before, state(place))):
        partly = (place / name).is_dir()  # of a folder, each file is whole or absent
        if not partly and (wrong := checks[name](place / name)):
            return Outcome(Verdict.WRONG, f"killed after {after_s:.2f} s: {wrong}")

    def files() -> list[str]:
        """The files of a report; drafts have other names."""
        found = target.glob("[!.]*") if target.is_dir() else ()
        return [f"{writing.target}/{path.name}" for path in found]

    written = [writing.target, *files()]
    ended = executed(writing.arguments, place)
    written += files()
    outcome = judged(
        ended, place, before, written=written, disagreement=lambda: writing.wrong(target),
        must_succeed=True,
    )  # fmt: skip
    reason = f"killed after {after_s:.2f} s, then: {outcome.reason}" if outcome.reason else ""
    return Outcome(outcome.verdict, reason, outcome.command)


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


KILL = Kind("kill", lambda _, kills: kills, run_kill, prepare=time_commands)


# Bytes; None is a read-only folder.
_LIMITS = (4_000, 150_000, 400_000, 1_000_000, 2_000_000, 8_000_000, None)
_CASES = [(name, limit) for name in COMMANDS for limit in _LIMITS]


def run_no_space(case: Case, folder: Path) -> Outcome:
    name, limit = _CASES[case.number]
    writing = COMMANDS[name]
    place = folder / "work"
    place.mkdir()
    fill(place, writing)
    before = state(place)
    folder.chmod(0o755)
    place.chmod(0o555)
    arguments = list(writing.arguments)
    if limit is None and os.geteuid() == 0:
        arguments[-1] = f"/sys/{writing.target}"

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    ended = executed(arguments, place, prepare=prepare)
    place.chmod(0o755)
    target = place / writing.target
    files = (path.relative_to(place) for path in target.rglob("*"))
    written = [writing.target, *map(str, files)]
    return judged(ended, place, before, written=written, disagreement=lambda: writing.wrong(target))


NO_SPACE = Kind("no space", lambda *_: len(_CASES), run_no_space, prepare=loaded_database)


_PARALLEL_CASES = 6
_RANKS = (0, 1)


def run_parallel(case: Case, folder: Path) -> Outcome:
    place = folder / "work"
    place.mkdir()
    for rank, trace in zip(_RANKS, seed_traces(), strict=True):
        (place / f"rank{rank}.json").write_text(json.dumps(trace))
    writers = []
    for rank in _RANKS:
        writers.append(started(["load", f"rank{rank}.json", "-o", "run.duckdb"], place))
        time.sleep(case.random.uniform(0, 1.5))
    said = set()
    while any(writer.poll() is None for writer in writers):
        ended = executed(["sql", "run.duckdb", "SELECT COUNT(*) AS n FROM slice"], place)
        said.add((ended.status, ended.err.count(b"\n"), b"Traceback" in ended.err))
    statuses = [writer.returncode for writer in writers]
    if statuses != [0, 0] or not said <= {(0, 0, False), (1, 1, False)}:
        return Outcome(Verdict.WRONG, f"loads ended with {statuses}, readers with {said}")
    if set(state(place)) != {"rank0.json", "rank1.json", "run.duckdb"}:
        return Outcome(Verdict.WRONG, f"the folder has {sorted(state(place))}")
    counts = rows(place / "run.duckdb", "SELECT rank, COUNT(*) FROM slice GROUP BY 1 ORDER BY 1")
    expected = [
        (rank, sum(event["ph"] == "X" for event in trace["traceEvents"]))
        for rank, trace in zip(_RANKS, seed_traces(), strict=True)
    ]
    if counts != expected or admitted_losses(place / "run.duckdb"):
        return Outcome(Verdict.WRONG, f"the database has {counts}, the files {expected}")
    return Outcome(Verdict.RIGHT)


PARALLEL = Kind("at once", lambda *_: _PARALLEL_CASES, run_parallel)
