"""Adding runs while processes are killed at random: the lake is whole, and nothing is lost."""

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import traces

import traceql
from traceql import drafts
from traceql.lake.check import check_lake
from traceql.lake.compact import compact

pytestmark = pytest.mark.slow

_KILLS = 10  # with each seed
_LONGEST_S = 4.0  # after which most adds of a few small runs have ended


def adding(lake: Path, *sources: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "traceql", "lake", "add", "--jobs", "2", "--lake", str(lake)]
    pipe = subprocess.PIPE
    return subprocess.Popen([*words, *map(str, sources)], stderr=pipe, text=True)


def kill_one(choice: random.Random, driver: int) -> None:
    """Kills the command, a process that loads a run, or one that reads a file, if there is one."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(driver)
        workers = process.children()
        readers = [reader for worker in workers for reader in worker.children()]
        kind = choice.choice([[process], workers, readers])
        choice.choice(kind or [process]).kill()


@pytest.mark.parametrize("seed", range(5))
def test_kills_at_any_time_lose_nothing_and_add_nothing_twice(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice, lake = random.Random(seed), tmp_path / "lake"
    durations = range(1, _KILLS + 2)
    sources = [
        traces.write(tmp_path / f"run{dur}.json", traces.kernel(ts=0, dur=dur), note=f"{dur}")
        for dur in durations
    ]
    for number in range(_KILLS):
        command = adding(lake, *sources[: number + 2])
        time.sleep(choice.uniform(0, _LONGEST_S))
        kill_one(choice, command.pid)
        _, told = command.communicate(timeout=120)
        assert command.returncode in (0, 1, -signal.SIGKILL), told
        if (lake / "lake.json").exists():
            assert {one.kind for one in check_lake(str(lake)).problems} <= {"stray", "failed"}
    last = adding(lake, *sources)
    _, told = last.communicate(timeout=120)
    assert last.returncode == 0, told
    with traceql.open_lake(lake) as opened:
        found = opened.sql("SELECT COUNT(*) AS rows, SUM(dur) AS ns FROM kernel GROUP BY run")
    assert sorted((row["ns"], row["rows"]) for row in found.rows()) == [
        (1_000 * dur, 1) for dur in durations
    ]
    monkeypatch.setattr(drafts, "_TO_MARK", 0.0)  # all that were to mark a folder have ended
    compact(str(lake))
    assert check_lake(str(lake)).problems == ()
    assert [one.name for one in lake.iterdir() if one.name.startswith(".")] == []
