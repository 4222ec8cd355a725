"""Odd but readable input: loaded all the same, and nothing is lost."""

import json
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import traces

import traceql

pytestmark = pytest.mark.slow

Row = tuple[Any, ...]
Load = Callable[..., traceql.Trace]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads texts (or lists of events) as the ranks of one run."""

    def loaded(*ranks: str | bytes | list[traces.Event], **metadata: Any) -> traceql.Trace:
        for n, rank in enumerate(ranks):
            path = tmp_path / "run" / f"rank{n}.json"
            if isinstance(rank, list):
                traces.write(path, *rank, **metadata)
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(rank if isinstance(rank, bytes) else rank.encode())
        return traceql.open(traceql.load([tmp_path / "run"], tmp_path / "run.duckdb").database)

    return loaded


def rows(trace: traceql.Trace, sql: str) -> list[Row]:
    return [tuple(row.values()) for row in trace.select(sql)]


def nothing_failed(trace: traceql.Trace) -> bool:
    return not len(trace.run("quality.ledger", failed=True))


def event(**fields: str) -> str:
    """One complete event as JSON text, so that numbers stand exactly as given."""
    plain = {"ph": '"X"', "name": '"op"', "pid": "1", "tid": "1", "ts": "0", "dur": "1"}
    return "{%s}" % ", ".join(f'"{key}": {value}' for key, value in (plain | fields).items())


def trace_text(*events: str) -> str:
    return '{"traceEvents": [%s]}' % ", ".join(events)


# --- one run with an odd file for each rank ------------------------------------------------------

IDS = '{"External id": 18446744073709551615, "correlation": -1, "n": 1234567890123456789012345}'
TOLD = [
    {"ph": "M", "name": "process_labels", "pid": 5, "tid": 0, "args": {"labels": "GPU 5"}},
    {"ph": "M", "name": "process_sort_index", "pid": 5, "args": {"sort_index": 12}},
    {"ph": "M", "name": "thread_name", "pid": 5, "tid": 9, "args": {"name": "idle stream"}},
    {"ph": "M", "name": "invented", "pid": 5, "tid": 9, "args": {}},
]
THREADS = ["0", "-5", "7", '"Spans"', '"7"', "18446744073709551615", "null"]


def json_text(events: Sequence[traces.Event], **metadata: Any) -> str:
    return json.dumps({**metadata, "traceEvents": events})


ODD: dict[str, str | bytes] = {
    "no JSON": trace_text(
        event(
            args='{"a": NaN, "b": [Infinity, -Infinity], "c": "x: NaN, y", "d": "\\"", "e": nan}'
        ),
        event(name='"is: NaN, so"', ts="5"),
    ),
    "no UTF-8": trace_text(
        event(name='"half \\ud800 and whole \\ud83d\\ude00"', args='{"k": "\\udc00"}'),
        event(name='"caf\u00e9 BYTE"', ts="5"),
    )
    .encode()
    .replace(b"BYTE", b"\xff"),
    "beyond 64 bits": trace_text(event(args=IDS), event(args='{"External id": 7}', ts="5")),
    "threads": trace_text(*(event(pid="7", tid=tid, ts=str(n)) for n, tid in enumerate(THREADS))),
    "processes": json_text([traces.kernel(ts=1, dur=1), *TOLD]),
}


class Odd:
    """The rows of one file of ODD: `$rank` is its rank."""

    def __init__(self, trace: traceql.Trace) -> None:
        self._trace = trace

    def rows(self, name: str, sql: str) -> list[Row]:
        bound = {"rank": [*ODD].index(name)}
        return [tuple(row.values()) for row in self._trace.select(sql, bound)]

    def nothing_failed(self, name: str) -> bool:
        return not self.rows(name, "SELECT check_name FROM ledger WHERE rank = $rank AND NOT ok")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odd]:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "run").mkdir()
    for rank, content in enumerate(ODD.values()):
        whole = content if isinstance(content, bytes) else content.encode()
        (folder / "run" / f"rank{rank}.json").write_bytes(whole)
    with traceql.open(traceql.load(folder / "run", folder / "run.duckdb").database) as trace:
        yield Odd(trace)


def test_numbers_that_are_no_json_become_strings(odd: Odd) -> None:
    (first, second) = odd.rows(
        "no JSON", "SELECT name, args FROM slice WHERE rank = $rank ORDER BY ts"
    )
    assert json.loads(first[1]) == {
        "a": "NaN", "b": ["Infinity", "-Infinity"], "c": "x: NaN, y", "d": '"', "e": "nan",
    }  # fmt: skip
    assert second == ("is: NaN, so", None)
    assert odd.nothing_failed("no JSON")


def test_lone_surrogates_and_broken_utf8_are_spelled_out(odd: Odd) -> None:
    assert odd.rows(
        "no UTF-8", "SELECT name, args ->> 'k' FROM slice WHERE rank = $rank ORDER BY ts"
    ) == [
        ("half \\ud800 and whole \U0001f600", "\\udc00"),
        ("caf\u00e9 \\xff", None),
    ]
    assert odd.nothing_failed("no UTF-8")


def test_numbers_beyond_64_bits_stay_exact_in_args(odd: Odd) -> None:
    found = odd.rows(
        "beyond 64 bits",
        "SELECT external_id, correlation, args FROM slice WHERE rank = $rank ORDER BY ts",
    )
    assert [row[:2] for row in found] == [(None, -1), (7, None)]
    assert json.loads(found[0][2]) == json.loads(IDS)


def test_threads_keep_their_ids_whatever_they_are(odd: Odd) -> None:
    assert odd.rows(
        "threads",
        "SELECT slice.tid, track.tid AS t FROM slice JOIN track ON track_id = track.id "
        "WHERE slice.rank = $rank ORDER BY ts",
    ) == [
        (0, "0"), (-5, "-5"), (7, "7"), (None, "Spans"), (None, "7"),
        (None, "18446744073709551615"), (None, None),
    ]  # fmt: skip
    assert odd.rows("threads", "SELECT COUNT(DISTINCT track_id) FROM slice WHERE rank = $rank") == [
        (7,)
    ]
    assert odd.nothing_failed("threads")


def test_names_and_labels_of_processes_are_kept(odd: Odd) -> None:
    assert odd.rows(
        "processes",
        "SELECT pid, tid, thread_name, process_labels, process_sort_index FROM track "
        "WHERE rank = $rank AND pid = '5'",
    ) == [("5", "9", "idle stream", "GPU 5", 12)]
    assert odd.rows(
        "processes",
        "SELECT value, total, ok FROM ledger WHERE rank = $rank AND check_name = 'metadata events'",
    ) == [(3, 4, False)]


# --- a run of its own for each ------------------------------------------------------------------


def test_nesting_deeper_than_the_trace_processor_allows_is_kept(load: Load) -> None:
    deep = [traces.host(f"level {n}", ts=n, dur=2_000 - 2 * n) for n in range(700)]
    trace = load(deep)
    assert rows(trace, "SELECT COUNT(*), SUM(dur) // 1000 FROM slice") == [
        (700, sum(2_000 - 2 * n for n in range(700))),
    ]  # fmt: skip
    assert rows(trace, "SELECT COUNT(*) FROM slice WHERE depth = 499") == [(1,)]
    assert nothing_failed(trace)


def test_negative_and_missing_durations_are_kept_and_told(load: Load) -> None:
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
    assert [row["rank"] for row in trace.run("overview.run")] == [0, 1, 2]
    assert nothing_failed(trace)


def test_other_shapes_of_the_format_load(load: Load) -> None:
    """One rank for each shape."""
    texts = {
        "array form": "[%s]" % event(),
        "byte order mark": "\ufeff" + trace_text(event()),
        "metadata around": '\n {"a": [1, {"b": "]"}], "traceEvents" : [\n%s\n], "z": [[2]]}'
        % event(),
        "odd types": trace_text(event(name="5", cat="null", args="[1, 2]")),
    }
    trace = load(*texts.values())
    found = rows(trace, "SELECT rank, ts, dur, pid, tid FROM slice ORDER BY rank")
    assert dict(zip(texts, found, strict=True)) == {
        shape: (rank, 0, 1_000, 1, 1) for rank, shape in enumerate(texts)
    }
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
    tables = (
        "trace",
        "slice",
        "track",
        "launch",
        "kernel",
        "step",
        "gap",
        "device_state",
        "ledger",
    )
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


def test_a_name_that_is_no_text_is_refused(load: Load) -> None:
    with pytest.raises(traceql.TraceqlError, match=r"not a profiler trace.*name"):
        load('{"traceEvents": [%s]}' % event(name="[1]"))


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
    from traceql.readers.formats.kineto.times import nanoseconds as exact

    gathering = "traceql.readers.formats.kineto.gathering"
    monkeypatch.setattr(f"{gathering}.nanoseconds", lambda texts: exact(texts) // 2)
    with load([traces.kernel(ts=1, dur=10)]) as trace:
        assert rows(trace, "SELECT dur FROM kernel") == [(5_000,)]
        assert [
            (row["rank"], row["check_name"], row["value"], row["total"])
            for row in trace.run("quality.ledger", failed=True)
        ] == [(0, "duration kernel", 5_000, 10_000)]


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
