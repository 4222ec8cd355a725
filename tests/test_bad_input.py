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
from collections.abc import Callable
from pathlib import Path

import pytest
import traces
from command_line import called
from shared_files import shared_file
from traces import hears_ctrl_c

import traceql

_GOOD = {"traceEvents": [traces.kernel("gemm", ts=1, dur=5)]}


def refused(*arguments: str | Path) -> str:
    """The one line on stderr of a `traceql load` that fails."""
    done = called("load", *arguments)
    err = done.stderr.decode()
    assert (done.returncode, done.stdout, err.count("\n")) == (1, b"", 1), err
    return err


def _text(content: str | bytes) -> Callable[[Path], Path]:
    """Writes a file with this content, as bad.json."""

    def write(folder: Path) -> Path:
        path = folder / "bad.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def _named(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def _missing(folder: Path) -> Path:
    return folder / "missing.json"


def _folder_without_traces(folder: Path) -> Path:
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("no trace")
    return folder / "notes"


def _folder_of_folders(folder: Path) -> Path:
    for name in ("tp4", "tp2"):
        traces.write(folder / "runs" / name / "rank0.json", *_GOOD["traceEvents"])
    return folder / "runs"


def _two_of_one_rank(folder: Path) -> Path:
    info = {"rank": 3, "world_size": 8}
    for name in ("a", "b"):
        event = traces.kernel(name, ts=1, dur=5)
        traces.write(folder / "two" / f"{name}.json", event, distributedInfo=info)
    return folder / "two"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.json")
    return folder / "pipe.json"


def _device(_: Path) -> Path:
    return Path("/dev/zero")


def _socket(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(folder / "s.json"))  # a socket's path must be short
    return folder / "s.json"


def _loop(folder: Path) -> Path:
    (folder / "loop.json").symlink_to("loop.json")
    return folder / "loop.json"


def _name_too_long(folder: Path) -> Path:
    return folder / ("long" * 100)


_EVENT = '{"ph": "X", "name": "odd one", "pid": 1, "tid": 1, %s}'
_BINARY = bytes(range(256)) * 64
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing file": (_missing, "no such file"),
    "empty file": (_text(""), "empty file"),
    "truncated gzip": (
        _named("bad.json.gz", gzip.compress(json.dumps(_GOOD).encode())[:-9]), "truncated gzip",
    ),
    "truncated JSON": (_text(json.dumps(_GOOD)[:-20]), "truncated"),
    "text": (_text("hello"), "not a trace"),
    "number": (_text("123"), "not a trace"),
    "no traceEvents": (_text('{"events": []}'), "traceEvents"),
    "traceEvents of another type": (_text('{"traceEvents": {"a": 1}}'), "not a profiler trace"),
    "event without ts": (_text('{"traceEvents": [%s]}' % _EVENT % '"dur": 1'), "odd one"),
    "ts that is no number": (
        _text('{"traceEvents": [%s]}' % _EVENT % '"ts": "soon", "dur": 1'), "soon",
    ),
    "ts beyond 64 bits": (_text('{"traceEvents": [%s]}' % _EVENT % '"ts": 1e18, "dur": 1'), "64"),
    "an end beyond 64 bits": (
        _text('{"traceEvents": [%s]}' % _EVENT % '"ts": 9.2e15, "dur": 9.2e15'), "292 years",
    ),
    "times 292 years apart": (
        _text('{"traceEvents": [%s, %s]}' % (_EVENT % '"ts": -9e15', _EVENT % '"ts": 9e15')),
        "292 years",
    ),
    "base beyond 64 bits": (
        _text(json.dumps(_GOOD | {"baseTimeNanoseconds": 2**64})), "baseTimeNanoseconds",
    ),
    "nested too deeply": (
        _text(json.dumps(_GOOD)[:-1] + ', "deep": ' + "[" * 5000 + "]" * 5000 + "}"), "too deeply",
    ),
    "a number of 5000 digits": (
        _text(json.dumps(_GOOD)[:-1] + ', "long": ' + "9" * 5000 + "}"), "metadata",
    ),
    "events twice": (
        _text('{"traceEvents": [%s], "traceEvents": []}' % _EVENT % '"ts": 1'), "twice",
    ),
    "binary": (_text(_BINARY), "not a trace"),
    "binary called pftrace": (_named("bad.pftrace", _BINARY), "not a trace"),
    "empty pftrace": (_named("bad.pftrace", b""), "empty file"),
    "folder without traces": (_folder_without_traces, "no traces"),
    "folder of folders with traces": (_folder_of_folders, "folders that have some: tp2, tp4"),
    "a database": (_named("old.duckdb", b""), "show it with traceql info"),
    "a pipe": (_pipe, "neither a file nor a folder"),
    "a device": (_device, "neither a file nor a folder"),
    "a socket": (_socket, "neither a file nor a folder"),
    "a link to itself": (_loop, "no such file"),
    "a name that is too long": (_name_too_long, "name too long"),
    "two files of one rank": (_two_of_one_rank, "rank 3"),
}  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database that a failing load must leave as it is."""
    good = traces.write(tmp_path / "good" / "rank7.json", *_GOOD["traceEvents"])
    made = shared_file("rank7.duckdb", lambda path: traceql.load([good], path))
    return Path(shutil.copy(made, tmp_path / "run.duckdb"))


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    named_in_one_line(name, tmp_path)


def named_in_one_line(name: str, tmp_path: Path) -> None:
    write, reason = BAD[name]
    path, target = write(tmp_path), tmp_path / "out.duckdb"
    before = sorted(tmp_path.iterdir())
    err = refused(path, "-o", target)
    assert reason in err
    assert path.name in err or "two" in err
    assert sorted(tmp_path.iterdir()) == before


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
    bad = [write(tmp_path) for write, _ in (BAD["truncated JSON"],)]
    for path in bad:
        with pytest.raises(traceql.TraceqlError):
            traceql.load([tmp_path / "good", path], database)
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


@pytest.mark.slow
@pytest.mark.parametrize("limit", [2_000, 200_000])
def test_full_disk_leaves_the_old_database_as_it_was(
    limit: int, database: Path, tmp_path: Path
) -> None:
    before = database.read_bytes()
    events = [traces.host("op " * 20, ts=n, dur=1) for n in range(2_000)]
    big = traces.write(tmp_path / "rank8.json", *events)

    def limit_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-m", "traceql", "load", str(big), "-o", str(database)],
        capture_output=True, text=True, check=False, preexec_fn=limit_files,
    )  # fmt: skip
    err = done.stderr
    assert (done.returncode, done.stdout, err.count("\n")) == (1, "", 1), err
    assert "cannot write" in err
    assert "invalidated" not in err  # only the draft is, which nobody has seen
    assert database.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_too_few_open_files_are_told(tmp_path: Path) -> None:
    file = long_to_read(tmp_path / "rank0.json")
    done = subprocess.run(
        [sys.executable, "-m", "traceql", "load", str(file), "-o", str(tmp_path / "run.duckdb")],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)),
    )  # fmt: skip
    told = "traceql: Too many open files; allow more with ulimit -n 1024\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)
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
    ("number", "said"),
    [
        (signal.SIGINT, "traceql: interrupted\n"),
        (signal.SIGTERM, ""),
    ],
    ids=["SIGINT", "SIGTERM"],
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


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (None, "cannot read"),
        ("pattern\nx\n", "first line"),
        ("priority,pattern,category\n1,(,gemm\n", "pattern '('"),
        ("priority,pattern,category\n1,x,matmul\n", "unknown category 'matmul'"),
        ("priority,pattern,category\n\u0663,x,gemm\n", "not a whole number"),
        ("priority,pattern,category\nfirst,x,gemm\n", "not a whole number"),
        ("category,pattern,priority\ngemm,foo\n", "not a whole number"),
        ("priority,category\n1,gemm\n", "first line"),
        ("priority,category,pattern\n1,gemm,\n", "no pattern"),
        ("priority,pattern,category\n" + "9" * 19 + ",x,gemm\n", "up to 18 digits"),
        ("priority,pattern,category\n" + "9" * 5000 + ",x,gemm\n", "up to 18 digits"),
        ("priority,pattern,category,pattern\n1,x,gemm,y\n", "names a column twice"),
        ('priority,pattern,category\n1,"x,gemm\n', "unexpected end of data"),
        (
            "priority,pattern,category\n1," + "x" * 200_000 + ",gemm\n",
            "larger than field limit",
        ),
        ("priority,pattern,category\n1," + "(" * 5_000 + ",gemm\n", "invalid rule pattern"),
        (
            "priority,pattern,category\n1," + "(a{1000}){1000},gemm\n",
            "invalid repetition size",
        ),
        (
            "\ufeffpriority,pattern,category\n5,nvjet,moe\n5,triton,rope\n",
            "same priority, 5",
        ),
    ],
)
def test_broken_rules_are_refused(rules: str | None, reason: str, tmp_path: Path) -> None:
    good = traces.write(tmp_path / "good.json", *_GOOD["traceEvents"])
    file = tmp_path / "rules.csv"
    if rules is not None:
        file.write_text(rules)
    with pytest.raises(traceql.TraceqlError, match=reason.replace("(", r"\(")) as error:
        traceql.load([good], tmp_path / "x.duckdb", rules=[file])
    assert len(str(error.value)) < 400 + len(str(file))
    assert not (tmp_path / "x.duckdb").exists()


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (_named("rules", b"priority,pattern,category\n1,caf\xe9,gemm\n"), "byte 31 is not UTF-8"),
        (_named("rules", "priority".encode("utf-16")), "byte 0 is not UTF-8"),
        (_pipe, "not a regular file"),
        (_device, "not a regular file"),
        (_folder_without_traces, "not a regular file"),
    ],
)
def test_a_file_that_holds_no_text_is_no_file_of_rules(
    write: Callable[[Path], Path], reason: str, tmp_path: Path
) -> None:
    good = traces.write(tmp_path / "good.json", *_GOOD["traceEvents"])
    err = refused(good, "--rules", write(tmp_path), "-o", tmp_path / "x.duckdb")
    assert "cannot read the rules in" in err
    assert reason in err
