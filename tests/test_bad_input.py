"""Bad input: one line that says what is wrong, exit status 1, and nothing half-written."""

import gzip
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import traces
from command_line import called
from shared_files import shared_file
from traces import hears_ctrl_c

import traceql

_GOOD = {"traceEvents": [traces.kernel("gemm", ts=1, dur=5)]}


def events_text(*events: str) -> str:
    each = (f'{{"ph": "X", "name": "odd one", "pid": 1, "tid": 1, {event}}}' for event in events)
    return '{"traceEvents": [%s]}' % ", ".join(each)


_WHOLE = json.dumps(_GOOD)
_BINARY = bytes(range(256)) * 64
_NO_NUMBER = "9" * 5000
# Contents of bad.json, or of a file of another name.
CONTENTS: dict[str, tuple[str | bytes, str]] = {
    "empty file": ("", "empty file"),
    "truncated JSON": (_WHOLE[:-20], "truncated"),
    "text": ("hello", "not a trace"),
    "number": ("123", "not a trace"),
    "no traceEvents": ('{"events": []}', "traceEvents"),
    "traceEvents of another type": ('{"traceEvents": {"a": 1}}', "not a profiler trace"),
    "event without ts": (events_text('"dur": 1'), "odd one"),
    "ts that is no number": (events_text('"ts": "soon", "dur": 1'), "soon"),
    "ts beyond 64 bits": (events_text('"ts": 1e18, "dur": 1'), "64"),
    "an end beyond 64 bits": (events_text('"ts": 9.2e15, "dur": 9.2e15'), "292 years"),
    "times 292 years apart": (events_text('"ts": -9e15', '"ts": 9e15'), "292 years"),
    "base beyond 64 bits": (
        json.dumps(_GOOD | {"baseTimeNanoseconds": 2**64}), "baseTimeNanoseconds",
    ),
    "nested too deeply": (
        f'{_WHOLE[:-1]}, "deep": {"[" * 5000 + "]" * 5000}}}', "too deeply",
    ),
    "a number of 5000 digits": (f'{_WHOLE[:-1]}, "long": {_NO_NUMBER}}}', "metadata"),
    "events twice": (f'{_WHOLE[:-1]}, "traceEvents": []}}', "twice"),
    "binary": (_BINARY, "not a trace"),
    "bad.json.gz": (gzip.compress(_WHOLE.encode())[:-9], "truncated gzip"),
    "bad.pftrace": (_BINARY, "not a trace"),
    "old.duckdb": (b"", "show it with traceql info"),
}  # fmt: skip


def refused(*arguments: str | Path) -> str:
    """The one line on stderr of a `traceql load` that fails."""
    done = called("load", *arguments)
    err = done.stderr.decode()
    assert (done.returncode, done.stdout, err.count("\n")) == (1, b"", 1), err
    return err


@pytest.mark.parametrize("name", CONTENTS)
def test_bad_content_is_one_line_that_names_the_file(name: str, tmp_path: Path) -> None:
    content, reason = CONTENTS[name]
    path = tmp_path / (name if name.startswith(("bad.", "old.")) else "bad.json")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    err = refused(path, "-o", tmp_path / "out.duckdb")
    assert reason in err
    assert path.name in err
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_without_a_trace_is_one_line_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.json")
    Path("loop.json").symlink_to("loop.json")
    Path("notes").mkdir()
    for folder in ("tp4", "tp2"):
        traces.write(Path("runs", folder, "rank0.json"), *_GOOD["traceEvents"])
    for name in ("a", "b"):
        kernel, info = traces.kernel(name, ts=1, dur=5), {"rank": 3, "world_size": 8}
        traces.write(Path("two", f"{name}.json"), kernel, distributedInfo=info)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("s.json")
    for path, reason in (
        ("missing.json", "no such file"),
        ("loop.json", "no such file"),
        ("long" * 100, "name too long"),
        ("notes", "no traces"),
        ("runs", "folders that have some: tp2, tp4"),
        ("two", "rank 3"),
        ("pipe.json", "neither a file nor a folder"),
        ("s.json", "neither a file nor a folder"),
        ("/dev/zero", "neither a file nor a folder"),
    ):
        err = refused(path, "-o", "out.duckdb")
        assert reason in err
        assert path in err
    assert not Path("out.duckdb").exists()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database that a failing load must leave as it is."""
    good = traces.write(tmp_path / "good" / "rank7.json", *_GOOD["traceEvents"])
    made = shared_file("rank7.duckdb", lambda path: traceql.load([good], path))
    return Path(shutil.copy(made, tmp_path / "run.duckdb"))


def test_a_zero_byte_in_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(traceql.TraceqlError, match="no such file or folder"):
        traceql.load("a\0b.json", tmp_path / "x.duckdb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("mode", [0o000, 0o400])
@pytest.mark.parametrize("closed", ["run", "run/traces", "run/traces/rank0.json"])
def test_what_may_not_be_read_is_one_line(closed: str, mode: int, tmp_path: Path) -> None:
    traces.write(tmp_path / "run" / "traces" / "rank0.json", *_GOOD["traceEvents"])
    if (closed, mode) == ("run/traces/rank0.json", 0o400):
        pytest.skip("a file may be read with this mode")
    (tmp_path / closed).chmod(mode)
    try:
        err = refused(tmp_path / "run", "-o", tmp_path / "x.duckdb")
    finally:
        (tmp_path / closed).chmod(0o700)
    assert "Permission denied" in err
    assert str(tmp_path / "run") in err


@pytest.mark.slow
def test_bad_input_leaves_the_old_database_as_it_was(database: Path, tmp_path: Path) -> None:
    before = database.read_bytes()
    bad = tmp_path / "bad.json"
    bad.write_text(_WHOLE[:-20])
    with pytest.raises(traceql.TraceqlError):
        traceql.load([tmp_path / "good", bad], database)
    assert database.read_bytes() == before
    assert not list(tmp_path.glob(".*loading*"))


def test_target_that_cannot_be_written(database: Path, tmp_path: Path) -> None:
    good = tmp_path / "good"
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    for target, reason in (
        (tmp_path / "notes.txt", "not a traceql database"),
        (tmp_path / "notes.txt" / "x.duckdb", "cannot write"),
        (tmp_path / "nowhere" / "x.duckdb", "cannot write"),
        (tmp_path / "folder", "is a folder"),
    ):
        assert reason in refused(good, "-o", target)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def refused_within(limit: int, of_what: int, *arguments: str | Path) -> str:
    """The one line on stderr of a `traceql load` that fails with a limit of the system."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(of_what, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-m", "traceql", "load", *map(str, arguments)],
        capture_output=True, text=True, check=False, preexec_fn=limited,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2_000, 200_000])
def test_full_disk_leaves_the_old_database_as_it_was(
    limit: int, database: Path, tmp_path: Path
) -> None:
    before = database.read_bytes()
    events = [traces.host("op " * 20, ts=n, dur=1) for n in range(2_000)]
    big = traces.write(tmp_path / "rank8.json", *events)
    err = refused_within(limit, resource.RLIMIT_FSIZE, big, "-o", database)
    assert "cannot write" in err
    assert "invalidated" not in err  # only the draft is, which nobody has seen
    assert database.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_too_few_open_files_are_reported(tmp_path: Path) -> None:
    file = long_to_read(tmp_path / "rank0.json")
    err = refused_within(12, resource.RLIMIT_NOFILE, file, "-o", tmp_path / "run.duckdb")
    assert err == "traceql: Too many open files; allow more with ulimit -n 1024\n"
    assert list(tmp_path.iterdir()) == [file]


def long_to_read(path: Path) -> Path:
    event = json.dumps(traces.host("op", ts=0, dur=1)).replace('"ts": 0', '"ts": %d')
    events = ", ".join(event % n for n in range(500_000))
    path.write_text(f'{{"traceEvents": [{events}]}}')
    return path


@pytest.mark.slow
def test_killed_load_leaves_the_old_database_and_the_next_one_cleans_up(
    database: Path, tmp_path: Path
) -> None:
    before = database.read_bytes()
    big = long_to_read(tmp_path / "rank8.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "traceql", "load", str(big), "-o", str(database)]
    )
    while not list(tmp_path.glob(".*loading*")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert database.read_bytes() == before
    assert list(tmp_path.glob(".*loading*")), "killed too late to test anything"
    traceql.load([tmp_path / "good"], database)
    assert not list(tmp_path.glob(".*loading*"))


# `traceql` that makes tables for minutes.
_SLOW = """
import sys
from pathlib import Path
from traceql.cli import main
from traceql.database.loading import load

deriving = Path(sys.argv.pop())

def make_tables(con, *_, **__):
    deriving.touch()
    for _ in range(1000):
        con.execute("CREATE OR REPLACE TABLE slow AS SELECT SUM(range) FROM range(100000000)")

load.make_tables = make_tables
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "traceql: interrupted\n"), (signal.SIGTERM, "")]
)
def test_load_stopped_while_duckdb_works_leaves_the_old_database(
    number: signal.Signals, said: str, database: Path, tmp_path: Path
) -> None:
    before = database.read_bytes()
    more = traces.write(tmp_path / "rank8.json", traces.host("op", ts=1, dur=1))
    deriving = tmp_path / "deriving"
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW, "load", str(more), "-o", str(database), str(deriving)],
        stderr=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c,
    )  # fmt: skip
    while not deriving.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)  # DuckDB executes by now
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (128 + number, said)
    assert database.read_bytes() == before
    assert not list(tmp_path.glob(".*loading*"))


_RULES = "priority,pattern,category\n"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("pattern\nx\n", "first line"),
        (f"{_RULES}1,(,gemm\n", "pattern '('"),
        (f"{_RULES}1,x,matmul\n", "unknown category 'matmul'"),
        (f"{_RULES}\u0663,x,gemm\n", "not a whole number"),
        ("category,pattern,priority\ngemm,foo\n", "not a whole number"),
        ("priority,category,pattern\n1,gemm,\n", "no pattern"),
        (f"{_RULES}{_NO_NUMBER},x,gemm\n", "up to 18 digits"),
        ("priority,pattern,category,pattern\n1,x,gemm,y\n", "names a column twice"),
        (f'{_RULES}1,"x,gemm\n', "unexpected end of data"),
        (f"{_RULES}1,{'x' * 200_000},gemm\n", "larger than field limit"),
        (f"{_RULES}1,{'(' * 5_000},gemm\n", "invalid rule pattern"),
        (f"{_RULES}1,(a{{1000}}){{1000}},gemm\n", "invalid repetition size"),
        (f"\ufeff{_RULES}5,nvjet,moe\n5,triton,rope\n", "same priority, 5"),
        (f"{_RULES}1,café,gemm\n".encode("latin-1"), "byte 31 is not UTF-8"),
        (None, "not a regular file"),
    ],
)
def test_broken_rules_are_refused(rules: str | bytes | None, reason: str, tmp_path: Path) -> None:
    good = traces.write(tmp_path / "good.json", *_GOOD["traceEvents"])
    file = tmp_path / "rules.csv"
    if rules is None:
        os.mkfifo(file)
    else:
        file.write_bytes(rules if isinstance(rules, bytes) else rules.encode())
    err = refused(good, "--rules", file, "-o", tmp_path / "x.duckdb")
    assert reason in err
    assert len(err) < 420 + len(str(file))
    assert not (tmp_path / "x.duckdb").exists()
