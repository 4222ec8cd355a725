"""Two loads into one database and a reader of it, at once."""

import json
import time
from pathlib import Path

from drills import seeds
from drills.command import executed, started
from drills.judging import state
from drills.kind import Case, Kind
from drills.oracle.database import admitted_losses, rows
from drills.outcome import Outcome, Verdict

_CASES = 6
_RANKS = (0, 1)


def run(case: Case, folder: Path) -> Outcome:
    place = folder / "work"
    place.mkdir()
    for rank, trace in zip(_RANKS, seeds.traces(), strict=True):
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
        for rank, trace in zip(_RANKS, seeds.traces(), strict=True)
    ]
    if counts != expected or admitted_losses(place / "run.duckdb"):
        return Outcome(Verdict.WRONG, f"the database has {counts}, the files {expected}")
    return Outcome(Verdict.RIGHT)


KIND = Kind("at once", lambda _: _CASES, run)
