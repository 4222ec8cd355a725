"""Odd but readable input: loaded all the same, and nothing is lost."""

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import traces

import traceql
from traceql.readers.formats.kineto.times import nanoseconds as exact

pytestmark = pytest.mark.slow

Row = tuple[Any, ...]
Load = Callable[..., traceql.Run]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads texts (or lists of events) as the ranks of one run."""

    def loaded(*ranks: str | bytes | list[traces.Event], **metadata: Any) -> traceql.Run:
        for n, rank in enumerate(ranks):
            path = tmp_path / "run" / f"rank{n}.json"
            if isinstance(rank, list):
                traces.write(path, *rank, **metadata)
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(rank if isinstance(rank, bytes) else rank.encode())
        return traceql.open(traceql.load([tmp_path / "run"], tmp_path / "run.duckdb").database)

    return loaded


def rows(trace: traceql.Run, sql: str) -> list[Row]:
    return trace.select(sql).fetchall()


def nothing_failed(trace: traceql.Run) -> bool:
    return not len(trace.query("quality.ledger", failed=True))


def event(**fields: str) -> str:
    """One complete event as JSON text, so that numbers stand exactly as given."""
    plain = {"ph": '"X"', "name": '"op"', "pid": "1", "tid": "1", "ts": "0", "dur": "1"}
    return "{%s}" % ", ".join(f'"{key}": {value}' for key, value in (plain | fields).items())


def trace_text(*events: str) -> str:
    return '{"traceEvents": [%s]}' % ", ".join(events)


# --- one run with an odd file for each rank ------------------------------------------------------

IDS = '{"External id": 18446744073709551615, "correlation": -1, "n": 1234567890123456789012345}'
DESCRIPTIONS = [
    {"ph": "M", "name": "process_labels", "pid": 5, "tid": 0, "args": {"labels": "GPU 5"}},
    {"ph": "M", "name": "process_sort_index", "pid": 5, "args": {"sort_index": 12}},
    {"ph": "M", "name": "thread_name", "pid": 5, "tid": 9, "args": {"name": "idle stream"}},
    {"ph": "M", "name": "invented", "pid": 5, "tid": 9, "args": {}},
]
THREADS = ["0", "-5", "7", '"Spans"', '"7"', "18446744073709551615", "null"]
NO_JSON = '{"a": NaN, "b": [Infinity, -Infinity], "c": "x: NaN, y", "d": "\\"", "e": nan}'
TEXTS = '{"a": "NaN", "b": ["Infinity", "-Infinity"], "c": "x: NaN, y", "d": "\\"", "e": "nan"}'
# By what is odd: the file, the columns of its slices, and their rows.
ODD: dict[str, tuple[str | bytes, str, list[Row]]] = {
    "numbers that are no JSON become strings": (
        trace_text(event(args=NO_JSON), event(name='"is: NaN, so"', ts="5")),
        "name, args",
        [("op", TEXTS), ("is: NaN, so", None)],
    ),
    "lone surrogates and broken UTF-8 are spelled out": (
        trace_text(
            event(name='"half \\ud800 and whole \\ud83d\\ude00"', args='{"k": "\\udc00"}'),
            event(name='"caf\u00e9 BYTE"', ts="5"),
        )
        .encode()
        .replace(b"BYTE", b"\xff"),
        "name, args ->> 'k'",
        [("half \\ud800 and whole \U0001f600", "\\udc00"), ("caf\u00e9 \\xff", None)],
    ),
    "numbers beyond 64 bits stay exact in args": (
        trace_text(event(args=IDS), event(args='{"External id": 7}', ts="5")),
        "external_id, correlation, args",
        [(None, -1, IDS), (7, None, '{"External id": 7}')],
    ),
    "threads keep their ids": (
        trace_text(*(event(pid="7", tid=tid, ts=str(n)) for n, tid in enumerate(THREADS))),
        "slice.tid, track.tid",
        [(0, "0"), (-5, "-5"), (7, "7"), (None, "Spans"), (None, "7"),
         (None, "18446744073709551615"), (None, None)],
    ),
    "processes": (json.dumps({"traceEvents": [traces.kernel(ts=1, dur=1), *DESCRIPTIONS]}),
                  "name", [("nvjet_sm90_gemm",)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traceql.Run]:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "run").mkdir()
    for rank, (content, _, _) in enumerate(ODD.values()):
        whole = content if isinstance(content, bytes) else content.encode()
        (folder / "run" / f"rank{rank}.json").write_bytes(whole)
    with traceql.open(traceql.load(folder / "run", folder / "run.duckdb").database) as trace:
        yield trace


@pytest.mark.parametrize("what", ODD)
def test_odd_slices_are_kept(what: str, odd: traceql.Run) -> None:
    _, columns, expected = ODD[what]
    joined = "slice INNER JOIN track ON track_id = track.id"
    select = f"SELECT {columns} FROM {joined} WHERE slice.rank = $rank ORDER BY ts"
    assert odd.select(select, {"rank": [*ODD].index(what)}).fetchall() == expected


def test_only_a_description_without_a_meaning_is_missing(odd: traceql.Run) -> None:
    failed = "SELECT rank, check_name, value, total FROM ledger WHERE NOT ok"
    # One event of another test names a device and a stream, but no category that anybody knows.
    assert rows(odd, failed + " ORDER BY rank") == [
        (2, "device events not understood", 1, 1), (len(ODD) - 1, "metadata events", 3, 4),
    ]  # fmt: skip
    columns = "pid, tid, thread_name, process_labels, process_sort_index"
    assert rows(odd, f"SELECT {columns} FROM track WHERE pid = '5'") == [
        ("5", "9", "idle stream", "GPU 5", 12)
    ]


# --- a run of its own for each ------------------------------------------------------------------


def test_nesting_deeper_than_the_trace_processor_allows_is_kept(load: Load) -> None:
    deep = [traces.host(f"level {n}", ts=n, dur=2_000 - 2 * n) for n in range(700)]
    trace = load(deep)
    assert rows(trace, "SELECT COUNT(*), SUM(dur) // 1000 FROM slice") == [
        (700, sum(2_000 - 2 * n for n in range(700))),
    ]  # fmt: skip
    assert rows(trace, "SELECT COUNT(*) FROM slice WHERE depth = 499") == [(1,)]
    assert nothing_failed(trace)


def test_negative_and_missing_durations_are_kept_and_reported(load: Load) -> None:
    trace = load(trace_text(event(dur="-3"), event(ts="5").replace(', "dur": 1', "")))
    assert rows(trace, "SELECT ts, dur FROM slice ORDER BY ts") == [(0, -3_000), (5_000, 0)]
    assert rows(
        trace, "SELECT value, total FROM ledger WHERE check_name = 'negative durations' AND NOT ok"
    ) == [(1, 2)]


def test_traces_without_gpu_without_host_or_without_events_load(load: Load) -> None:
    trace = load(
        [traces.host("op", ts=1, dur=2)], [traces.kernel("gemm", ts=1, dur=2, correlation=4)], []
    )
    assert rows(trace, "SELECT rank, COUNT(slice.id) FROM trace LEFT JOIN slice USING (rank) "
                       "GROUP BY ALL ORDER BY ALL") == [(0, 1), (1, 1), (2, 0)]  # fmt: skip
    assert rows(trace, "SELECT rank, launch_id, step_id FROM kernel") == [(1, None, None)]
    assert [row["rank"] for row in trace.query("overview.run")] == [0, 1, 2]
    assert nothing_failed(trace)


def test_other_shapes_of_the_format_load(load: Load) -> None:
    around = '\n {"a": [1, {"b": "]"}], "traceEvents" : [\n%s\n], "z": [[2]]}' % event()
    odd_types = trace_text(event(name="5", cat="null", args="[1, 2]"))
    trace = load("[%s]" % event(), "\ufeff" + trace_text(event()), around, odd_types)
    found = rows(trace, "SELECT rank, ts, dur, pid, tid FROM slice ORDER BY rank")
    assert found == [(rank, 0, 1_000, 1, 1) for rank in range(4)]
    assert nothing_failed(trace)


def test_rank_and_world_size_come_from_the_best_source(tmp_path: Path) -> None:
    one = traces.kernel("gemm", ts=1, dur=2)
    run = tmp_path / "run"
    traces.write(run / "a.json", one, distributedInfo={"rank": 2, "world_size": 4})
    traces.write(run / "dp0_pp1_tp3_dcp0_ep2_rank1.171.pt.trace.json", one)
    traces.write(run / "z.json.gz", one)
    with traceql.open(traceql.load([run], tmp_path / "run.duckdb").database) as trace:
        assert rows(
            trace,
            "SELECT trace.rank, world_size, tp_rank, pp_rank, dp_rank, ep_rank, note FROM trace "
            "JOIN ledger ON trace.rank = ledger.rank AND check_name LIKE 'rank %' ORDER BY 1",
        ) == [
            (0, 4, None, None, None, None, "rank from order of files"),
            (1, 4, 3, 1, 0, 2, "rank from file name"),
            (2, 4, None, None, None, None, "rank from distributedInfo"),
        ]


def test_ranks_loaded_one_by_one_equal_ranks_loaded_at_once(tmp_path: Path) -> None:
    events = [traces.launch(ts=1, correlation=1), traces.kernel(ts=5, dur=2, correlation=1)]
    earlier = [traces.launch(ts=0.5, correlation=1), traces.kernel(ts=2, dur=2, correlation=1)]
    first = traces.write(tmp_path / "rank0.json", *events)
    second = traces.write(tmp_path / "rank1.json", *earlier)
    traceql.load([first], tmp_path / "parts.duckdb")
    parts = traceql.load([second, first], tmp_path / "parts.duckdb")
    assert (parts.added, parts.skipped) == ([second], [first])
    traceql.load([first, second], tmp_path / "whole.duckdb")
    tables = ("trace", "slice", "track", "launch", "kernel", "step", "gap", "ledger")
    with (
        traceql.open(tmp_path / "parts.duckdb") as parted,
        traceql.open(tmp_path / "whole.duckdb") as whole,
    ):
        for table in tables:
            sql = f"SELECT * FROM {table} ORDER BY ALL"
            assert rows(parted, sql) == rows(whole, sql), table
        assert rows(whole, "SELECT rank, MIN(ts) FROM slice GROUP BY 1 ORDER BY 1") == [
            (0, 500), (1, 0),
        ]  # fmt: skip


def test_hosts_with_different_base_times_share_one_time(tmp_path: Path) -> None:
    for rank, base, ts in ((0, 5_000_000_000, 10), (1, 4_000_000_000, 1_000_013)):
        path = tmp_path / "run" / f"rank{rank}.json"
        traces.write(path, traces.kernel(ts=ts, dur=1), baseTimeNanoseconds=base)
    with traceql.open(traceql.load([tmp_path / "run"], tmp_path / "x.duckdb").database) as trace:
        assert rows(trace, "SELECT rank, ts FROM kernel ORDER BY rank") == [(0, 0), (1, 3_000)]
        assert rows(trace, "SELECT DISTINCT base_time_ns FROM trace") == [(5_000_010_000,)]
        (note,) = rows(
            trace, "SELECT note FROM ledger WHERE rank = 1 AND check_name LIKE 'clock%'"
        )[0]
        assert note.startswith("base time")


def test_rules_of_ones_own_come_first(tmp_path: Path) -> None:
    trace_file = traces.write(tmp_path / "t.json", traces.kernel("my_gemm", ts=1, dur=2))
    rules = tmp_path / "rules.csv"
    rules.write_text("priority,pattern,category\n1,^my_,moe\n")
    database = traceql.load([trace_file], tmp_path / "x.duckdb").database
    traceql.load([trace_file], database, rules=[rules])  # a loaded trace is classified again
    with traceql.open(database) as trace:
        assert rows(trace, "SELECT category FROM kernel") == [("moe",)]
        assert rows(trace, "SELECT name, category, priority FROM kernel_class") == [
            ("my_gemm", "moe", 1),
        ]  # fmt: skip


def test_ranks_of_one_unrelated_clock_keep_their_distance(tmp_path: Path) -> None:
    starts = {0: 1_000_000, 1: 1_020_000, 2: 90_000_000_000, 3: 90_000_050_000}  # us
    for rank, ts in starts.items():
        traces.write(tmp_path / "run" / f"rank{rank}.json", traces.kernel(ts=ts, dur=1))
    files = sorted((tmp_path / "run").iterdir())
    expected = [(0, 0), (1, 20_000_000), (2, 0), (3, 50_000_000)]
    for name, parts in {"once": [files], "one by one": [[f] for f in files]}.items():
        for part in parts:
            database = traceql.load(part, tmp_path / f"{name}.duckdb").database
        with traceql.open(database) as trace:
            assert rows(trace, "SELECT rank, ts FROM kernel ORDER BY rank") == expected
            clocks = "SELECT note FROM ledger WHERE rank = 2 AND check_name LIKE 'clock%'"
            assert rows(trace, clocks)[0][0].startswith("clock unrelated")


def test_a_duration_read_wrong_fails_the_ledger(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's sum comes from the text of the file, and not from the times of the events."""
    gathering = "traceql.readers.formats.kineto.gathering"
    monkeypatch.setattr(f"{gathering}.nanoseconds", lambda texts: exact(texts) // 2)
    with load([traces.kernel(ts=1, dur=10)]) as trace:
        assert rows(trace, "SELECT dur FROM kernel") == [(5_000,)]
        failed = "SELECT rank, check_name, value, total FROM ledger WHERE NOT ok"
        assert rows(trace, failed) == [(0, "duration kernel", 5_000, 10_000)]


def test_durations_of_half_nanoseconds_add_up_in_the_ledger(load: Load) -> None:
    texts = ["1.0015", "2.0005", "0.0045", "4.0355", "1.2345"]
    events = ",".join(
        json.dumps(traces.kernel(ts=10 * n, dur=5)).replace('"dur": 5', f'"dur": {text}')
        for n, text in enumerate(texts)
    )
    with load('{"traceEvents": [%s]}' % events) as trace:
        half_to_even = sum(round(Fraction(text) * 1000) for text in texts)
        assert rows(trace, "SELECT SUM(dur) FROM slice") == [(half_to_even,)]
        assert rows(trace, "SELECT COUNT(*) FROM ledger WHERE NOT ok") == [(0,)]
