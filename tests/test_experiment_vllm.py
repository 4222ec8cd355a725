"""`make experiment-demo`, with the real vLLM on a CPU: killed half-way, resumed, and complete."""

import json
import re
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import databases
import psutil
import pytest
from experiment_runs import repeats_of, statuses
from vllm_python import VLLM_PYTHON

import traceql

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

_REPEATS = ("repeat-1", "profiled")
_POINTS = [f"batch{n}-in{length}-out16-n{n}" for n, length in product((1, 4), (64, 256))]
_ALL = {
    f"{engine}/{point}/{repeat}"
    for engine, point, repeat in product(("tp1", "tp2"), _POINTS, _REPEATS)
}
_STARTS = {f"{engine}/{repeat}.1" for engine, repeat in product(("tp1", "tp2"), _REPEATS)}
_FEWER = ("--set", "repeats=1")  # each is a start of a server more, which takes vLLM 40 s of CPU
_KILLED_AFTER = len(_ALL) // 2 - 2  # repeats: in the middle of what one server measures
_HASH = re.compile(r"(?<=^tp\d)-\w+")


def _command(out: Path, *more: str) -> list[str]:
    """That of the Makefile, with another folder for the results and one repeat."""
    makefile = (databases.ROOT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(r"bin/traceql (experiment run .+)\s-o results/demo", makefile)
    assert found
    return [VLLM_PYTHON, "-m", "traceql", *shlex.split(found[1]), *_FEWER, "-o", str(out), *more]


def test_the_demo_killed_half_way_is_completed_by_another_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _kill_half_way(out, tmp_path / "told")
    kept = _files(out, statuses(out))
    done = subprocess.run(_command(out, "--resume"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} repeats done before" in done.stderr
    assert _files(out, kept) == kept
    _every_repeat_is_there_once(out)
    _servers_measured_what_they_should(out, kept)
    for folder in out.glob("points/*/*/repeat-*"):
        assert {file.name for file in folder.iterdir()} == _documented("repeat-N")
        _has_the_numbers_that_vllm_printed(folder)
    for folder in out.glob("points/*/*/profiled"):
        assert {file.name for file in folder.iterdir()} == _documented("profiled")
        ranks = range(int(folder.parts[-3][2]))
        names = {file.name for file in (folder / "traces").iterdir()}
        assert names == {f"rank{rank}.pt.trace.json.gz" for rank in ranks}
    for folder in out.glob(f"points/*/{_POINTS[-1]}/profiled"):
        _can_be_loaded(folder, tmp_path)


def _kill_half_way(out: Path, told: Path) -> None:
    with told.open("wb") as errors:
        process = subprocess.Popen(_command(out), stderr=errors)
        while len(statuses(out)) < _KILLED_AFTER:
            assert process.poll() is None, told.read_text()
            time.sleep(0.1)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive
    assert _KILLED_AFTER <= len(statuses(out)) < len(_ALL) // 2


def _files(out: Path, repeats: Iterable[str]) -> dict[str, object]:
    """When the files of each repeat were written, and what they contain."""
    return {
        path: {
            file: (file.stat().st_mtime_ns, file.read_bytes())
            for file in (out / "points" / path).rglob("*")
            if file.is_file()
        }
        for path in repeats
    }


def _every_repeat_is_there_once(out: Path) -> None:
    folders = [str(folder.relative_to(out / "points")) for folder in out.glob("points/*/*/*")]
    assert sorted(_HASH.sub("", folder) for folder in folders) == sorted(_ALL)
    assert statuses(out) == dict.fromkeys(sorted(folders), "complete")
    plan = json.loads((out / "plan.json").read_text())
    assert (len(plan["points"]), plan["skipped"]) == (len(_ALL) // len(_REPEATS), [])
    assert {file.name for file in out.iterdir()} - {".lock"} == {
        "model", "plan.json", "points", "servers",
    }  # fmt: skip


def _servers_measured_what_they_should(out: Path, kept: dict[str, object]) -> None:
    """One start for each engine and repeat, and one more for what was killed."""
    points = Counter(
        _HASH.sub("", run["experiment"]["server"]["folder"].removeprefix("servers/"))
        for run in repeats_of(out).values()
    )
    folders = {str(folder.relative_to(out / "servers")) for folder in out.glob("servers/*/*")}
    assert {_HASH.sub("", folder) for folder in folders} == set(points)
    (again,) = set(points) - _STARTS
    assert again == again.split("/")[0] + "/repeat-1.2"
    before = len(kept) % len(_POINTS)
    halves = {again.replace(".2", ".1"): before, again: len(_POINTS) - before}
    assert points == dict.fromkeys(_STARTS, len(_POINTS)) | halves


def _documented(repeat: str) -> set[str]:
    """The files of a repeat on a machine without a GPU, as the document says."""
    text = (databases.ROOT / "docs" / "experiments.md").read_text()
    row = re.search(rf"^\| `points/ENGINE/POINT/{repeat}/` \|(.+?);[^;]+\|$", text, re.MULTILINE)
    assert row
    return {name.rstrip("/") for name in re.findall(r"`([^`]+)`", row[1])}


def _has_the_numbers_that_vllm_printed(folder: Path) -> None:
    log = (folder / "log.txt").read_text()
    assert log.count("Serving Benchmark Result") == 1
    printed = dict(re.findall(r"^(.+?):\s+([\d.]+)\s*$", log, re.M))
    passed = json.loads((folder / "metrics.json").read_text())["passes"]["unprofiled"]
    ((batch, prompt),) = re.findall(r"^batch(\d+)-in(\d+)-", folder.parent.name)
    batch, prompt = int(batch), int(prompt)
    assert int(printed["Successful requests"]) == len(passed["requests"]) == batch
    assert int(printed["Total input tokens"]) == prompt * batch
    tokens = passed["summary"]["output_tokens"]
    assert int(printed["Total generated tokens"]) == tokens == 16 * batch
    for title, name in (("TTFT", "ttft"), ("TPOT", "tpot"), ("E2EL", "e2e")):
        for stat, key in (("Mean", "mean"), ("Median", "p50"), ("P99", "p99")):
            ms = passed["summary"][name][key] / 1e6
            assert float(printed[f"{stat} {title} (ms)"]) == pytest.approx(ms, abs=0.006)


def _can_be_loaded(folder: Path, scratch: Path) -> None:
    database = traceql.load([folder], scratch / f"{folder.parts[-3]}.duckdb").database
    with traceql.open(database) as trace:
        assert trace.run("quality.ledger", failed=True).rows() == []
        ranks = trace.sql("SELECT rank, tp_rank, world_size FROM trace ORDER BY rank").rows()
        tp = int(folder.parts[-3][2])
        assert [tuple(row.values()) for row in ranks] == [(rank, rank, tp) for rank in range(tp)]
        phases = {row["phase"] for row in trace.sql("SELECT DISTINCT phase FROM step")}
        assert "decode" in phases  # however slow the machine is
        assert phases & {"prefill", "mixed"}
