"""Output of any length, to any place: in the memory of a batch, or told in one line."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import databases
import pyarrow.parquet as pq
import pytest
from command_line import PROGRAM, called, output, process

pytestmark = pytest.mark.slow

_WITH_PEAK = (
    "import atexit, resource, sys; usage = resource.getrusage; atexit.register(lambda: print("
    f"usage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)); {PROGRAM}"
)
_FORMATS = ("csv", "table", "json", "parquet")


@pytest.fixture(scope="module")
def database() -> Path:
    return databases.trace("qwen3-8b-tp1-graph").path


def test_a_long_table_ends_and_says_how_many_rows_are_left(database: Path) -> None:
    done = called("sql", database, "SELECT range AS n FROM range(320000)")
    assert done.stdout.decode().split()[-1] == "999"
    assert done.stderr.decode() == "1,000 of 320,000 rows; --format csv for all\n"
    whole = called("sql", database, "SELECT range AS n FROM range(1000)")
    assert (whole.stdout, whole.stderr) == (done.stdout, b"")


def test_batches_make_one_document(database: Path) -> None:
    """Several batches, of whose last row alone the text is long."""
    statement = "SELECT range AS n, [range] AS l, 'é' || range AS t FROM range(10000)"
    rows = [{"n": n, "l": [n], "t": f"é{n}"} for n in range(10_000)]
    as_json = json.dumps(rows, indent=1, ensure_ascii=False)
    assert output("sql", database, statement, "--format", "json") == f"{as_json}\n"
    as_csv = "".join(f"{n},[{n}],é{n}\n" for n in range(10_000))
    assert output("sql", database, statement, "--format", "csv") == f"n,l,t\n{as_csv}"


@pytest.mark.parametrize("format_", _FORMATS)
def test_an_error_in_a_late_row_is_one_line(format_: str, database: Path) -> None:
    late = "CASE WHEN range = 290000 THEN error('too late') END"
    statement = f"SELECT {late} AS x, range AS n FROM range(300000)"
    done = process("sql", database, statement, "--format", format_)
    assert done.returncode == 1
    assert done.stderr == b"traceql: Invalid Input Error: too late\n"


def test_the_last_row_decides_the_type_of_a_wide_integer(database: Path) -> None:
    statement = (
        "SELECT CASE WHEN range < 100000 THEN 5 ELSE {} END::HUGEINT AS n FROM range(100001)"
    )
    for last, kind in ((7, "int64"), (2**100, "decimal128(38, 0)")):
        done = process("sql", database, statement.format(last), "--format", "parquet")
        table = pq.read_table(io.BytesIO(done.stdout))
        assert str(table.schema.field("n").type) == kind
        assert (int(table["n"][0].as_py()), int(table["n"][100_000].as_py())) == (5, last)


@pytest.mark.parametrize("format_", _FORMATS)
def test_memory_does_not_grow_with_the_rows(format_: str, database: Path) -> None:
    """Held in memory, so many rows of these take 200 MB as Arrow alone."""

    def peak_mb(rows: int) -> int:
        statement = f"SELECT range AS n, repeat('x', 192) AS t FROM range({rows})"
        done = subprocess.run(
            [sys.executable, "-c", _WITH_PEAK, "sql", database, statement, "--format", format_],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True,
        )  # fmt: skip
        return int(done.stderr.split()[-1]) >> 10

    assert peak_mb(1_000_000) < peak_mb(100_000) + 60


@pytest.mark.parametrize(
    "arguments",
    [
        ("queries",), ("--version",), ("info", "DB"),
        *(("sql", "DB", "FROM range(100000)", "--format", f) for f in _FORMATS),
    ],
)  # fmt: skip
def test_output_that_cannot_be_written_is_one_line(
    arguments: tuple[str, ...], database: Path
) -> None:
    words = [str(database) if word == "DB" else word for word in arguments]
    reading, pipe = os.pipe()
    os.close(reading)
    full = os.open("/dev/full", os.O_WRONLY)
    for place, reason in ((full, "No space left on device"), (pipe, None)):
        command = [sys.executable, "-c", PROGRAM, *words]
        done = subprocess.run(command, stdout=place, stderr=subprocess.PIPE, check=False)
        said = f"traceql: cannot write the output: {reason}\n" if reason else ""
        assert (done.returncode, done.stderr.decode()) == (1, said)
        os.close(place)
