"""Real traces: everything that stands in the JSON stands in the database, unchanged."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import databases
import pytest
from databases import RankFile, cases, document, file_events, gpu_events, rank_files

_SMALL_BYTES = 20_000_000  # of JSON
_SAMPLE = 23  # every how many events' arguments are compared


@pytest.fixture(scope="module", params=cases())
def run(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    databases.files(name)
    return name


def rows(run: str, sql: str, rank: int) -> list[tuple[Any, ...]]:
    columns = databases.trace(run).select(sql, {"rank": rank}).arrow().columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def small_files(run: str) -> Iterable[RankFile]:
    found = [
        file
        for file in rank_files(run)
        if databases.is_parsed(file.path)
        and int.from_bytes(file.path.read_bytes()[-4:], "little") < _SMALL_BYTES  # gzip's last ones
    ]
    return found or pytest.skip("too large to compare event by event")


def test_every_shared_trace_is_among_the_runs() -> None:
    if not databases.SHARED.is_dir():
        pytest.skip("no shared traces")
    found = {file.name for file in databases.SHARED.rglob("*.json.gz")}
    assert found == {file.name for run in databases.RUNS for file in databases.files(run)}


def test_every_category_keeps_its_count_and_duration(run: str) -> None:
    for file in rank_files(run):
        events, dur = Counter[str](), Counter[str]()
        for event in file_events(file.path):
            events[event.cat] += 1
            dur[event.cat] += event.dur
        sql = "SELECT cat, COUNT(*), SUM(dur) FROM slice WHERE rank = $rank GROUP BY cat"
        assert sorted(rows(run, sql, file.rank)) == sorted(
            (cat, events[cat], dur[cat]) for cat in events
        )


def test_every_stream_keeps_its_kernels(run: str) -> None:
    sql = """
        SELECT device, stream, kind, COUNT(*), SUM(dur) FROM kernel
        WHERE rank = $rank GROUP BY ALL
    """
    for file in rank_files(run):
        count, dur = Counter[tuple[int, int, str]](), Counter[tuple[int, int, str]]()
        for event in gpu_events(file.path):
            args = event.args or {}
            device, stream = args.get("device", event.pid), args.get("stream", event.tid)
            place = device, stream, event.cat.removeprefix("gpu_")
            count[place] += 1
            dur[place] += event.dur
        assert sorted(rows(run, sql, file.rank)) == sorted(
            (*place, count[place], dur[place]) for place in count
        )


def test_every_event_keeps_its_place_and_time(run: str) -> None:
    sql = "SELECT cat, name, ts, dur, pid, tid FROM slice WHERE rank = $rank"
    for file in small_files(run):
        expected = Counter(
            (e.cat, e.name, e.ts + file.offset_ns, e.dur, integer(e.pid), integer(e.tid))
            for e in file_events(file.path)
        )
        assert Counter(rows(run, sql, file.rank)) == expected


def integer(place: Any) -> int | None:
    return place if isinstance(place, int) else None


def test_arguments_parse_to_the_same_objects(run: str) -> None:
    sql = "SELECT args FROM slice WHERE rank = $rank ORDER BY id"
    for file in small_files(run):
        kept = rows(run, sql, file.rank)[::_SAMPLE]
        expected = [event.args for event in file_events(file.path)[::_SAMPLE]]
        assert [parsed(args) for (args,) in kept] == expected


def parsed(args: str | None) -> Any:
    return None if args is None else json.loads(args, parse_float=Decimal)


def test_ids_that_join_events_are_those_of_the_arguments(run: str) -> None:
    sql = "SELECT external_id, correlation FROM slice WHERE rank = $rank ORDER BY id"
    for file in small_files(run):
        args = [event.args or {} for event in file_events(file.path)]
        expected = [
            (a.get("External id", a.get("external id")), a.get("correlation")) for a in args
        ]
        assert rows(run, sql, file.rank) == expected


@pytest.mark.slow
def test_every_instant_keeps_its_time_and_arguments(run: str) -> None:
    sql = "SELECT name, ts, args FROM instant WHERE rank = $rank"
    for file in small_files(run):
        expected = sorted(
            (e["name"], databases.ns(e["ts"]) + file.offset_ns, repr(e.get("args")))
            for e in document(file.path)["traceEvents"]
            if e["ph"] in ("i", "I")
        )
        kept = sorted((n, ts, repr(parsed(args))) for n, ts, args in rows(run, sql, file.rank))
        assert kept == expected


# Keys that programs added, with their machine and environment.
_ADDED = re.compile(
    "metadata|username|host_name|logical_server_subtype|ai_rm_attribution|(mast|tw)_.*"
)


def test_metadata_is_every_top_level_key_of_the_profiler(run: str) -> None:
    sql = "SELECT metadata FROM trace WHERE rank = $rank"
    for file in small_files(run):
        whole = {key: v for key, v in document(file.path).items() if key != "traceEvents"}
        expected = {key: v for key, v in whole.items() if not _ADDED.fullmatch(key)}
        ((kept,),) = rows(run, sql, file.rank)
        assert parsed(kept) == expected


def test_parents_enclose_their_children_on_the_same_track(run: str) -> None:
    broken = databases.trace(run).sql("""
        SELECT child.id
        FROM slice AS child
        JOIN slice AS parent ON child.parent_id = parent.id
        WHERE NOT (
            parent.rank = child.rank
            AND parent.track_id = child.track_id
            AND parent.ts <= child.ts
            AND child.ts + child.dur <= parent.ts + parent.dur
            AND child.depth = parent.depth + 1
        )
        UNION ALL
        SELECT id FROM slice WHERE (parent_id IS NULL) <> (depth = 0)
    """)
    assert broken.rows() == []


def test_every_ledger_check_passes(run: str) -> None:
    checks = databases.trace(run).sql("SELECT check_name, ok FROM ledger").rows()
    assert [check for check in checks if check["ok"] is False] == []
    proven = {check["check_name"].split()[0] for check in checks if check["ok"]}
    assert proven >= {"events", "duration", "trace", "time", "idle"}


@pytest.mark.parametrize("run", cases(databases.OWN))
def test_arrows_join_each_kernel_with_its_launch(run: str) -> None:
    arrows = databases.trace(run).sql("SELECT rank, slice_out, slice_in FROM flow ORDER BY ALL")
    launches = databases.trace(run).sql("""
        SELECT rank, launch_id AS slice_out, id AS slice_in
        FROM kernel
        WHERE launch_id IS NOT NULL
        ORDER BY ALL
    """)
    assert arrows.arrow().equals(launches.arrow())
    assert len(arrows) > 0
