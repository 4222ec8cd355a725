"""`traceql load --jobs`: how many processes read at once, seen from these processes."""

import sys
from pathlib import Path

import pytest
import traces
from command_line import refusal

from traceql.database.loading import reading

FILES = 5
# In place of a reading process: notes when it ran. It waits until as many have started as may run
# at once, and a little longer, in which one too many would start.
_RECORDER = """
import json, os, sys, time
from pathlib import Path

folder, awaited = Path(sys.argv[1]), int(sys.argv[2])
begin = time.monotonic()
note = folder / str(os.getpid())
note.touch()
while len(list(folder.iterdir())) < awaited and time.monotonic() < begin + 20:
    time.sleep(0.005)
time.sleep(0.1)
note.write_text(f"{begin} {time.monotonic()}")
file = json.loads(sys.stdin.readline())[0]
json.dump(["NotATrace", f"{file}: recorded"], sys.stdout)
sys.exit(1)
"""

pytestmark = pytest.mark.usefixtures("processes_read")


def most_at_once(notes: Path) -> int:
    """Of the processes that left a note, one for each file."""
    spans = [tuple(map(float, note.read_text().split())) for note in notes.iterdir()]
    assert len(spans) == FILES
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


@pytest.mark.parametrize("jobs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_as_many_processes_read_as_jobs_says(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, notes = tmp_path / "ranks", tmp_path / "notes"
    notes.mkdir()
    for rank in range(FILES):
        traces.write(ranks / f"rank{rank}.json", traces.kernel(ts=rank, dur=1))
    command = (sys.executable, "-S", "-c", _RECORDER, str(notes), str(jobs))
    monkeypatch.setattr(reading, "WORKER", command)
    said = refusal("load", ranks, "-o", tmp_path / "run.duckdb", "--jobs", str(jobs))
    assert said.endswith(": recorded")
    assert most_at_once(notes) == jobs
