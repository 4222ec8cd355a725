"""Records that the profiler lost, impossible times, and clocks of host and GPU that disagree."""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import databases
import pytest
from traces import Event, all_reduce, host, kernel, launch, loaded, write

import traceql

REPORTS = databases.ROOT.parent / "shared" / "reports"
RECORDED = Path(__file__).with_name("data") / "launches"
REAL = databases.EXAMPLES / "qwen3-8b-tp1-graph"
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
US = 1_000
YEAR = 365 * 86_400 * 10**6  # us

LOST = "launches without a recorded kernel"
COPIES = "copies without a record"
TIMES = "activities with impossible times"
EARLY = "kernels before their launch"
LATE = "kernels after the host waited for them"
DRIFT = "drift of the GPU clock"


def report(name: str, folder: Path) -> traceql.Run:
    path = REPORTS / name / "trace.json"
    if not path.exists():
        pytest.skip("needs shared/reports")
    return traceql.open(traceql.load(path, folder / "run.duckdb").database)


def rows(run: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return run.select(sql).fetchall()


def failed(run: traceql.Run) -> dict[str, tuple[int, int]]:
    found = rows(run, "SELECT check_name, value, total FROM ledger WHERE NOT ok")
    return {name: (value, total) for name, value, total in found}


def idle(run: traceql.Run) -> dict[str, int]:
    """The idle time of each cause, ns; all of it is in a gap."""
    parts = run.query("time.breakdown").rows()
    found = dict(rows(run, "SELECT cause, SUM(dur) FROM gap GROUP BY cause"))
    assert sum(found.values()) == sum(row["idle_ns"] for row in parts)
    lost = rows(run, "SELECT SUM(ns) FROM lost_time WHERE part = 'idle'")
    assert lost == [(sum(found.values()) or None,)]
    return {cause: int(ns) for cause, ns in found.items()}


def found(run: traceql.Run) -> set[str]:
    return {row["cause"] for row in run.query("overview.findings").rows()}


# --- the reports -------------------------------------------------------------------------------


def test_lost_records_of_the_report(tmp_path: Path) -> None:
    """40 launches from 0.6 ms on; each kernel takes 19 us of 20 us."""
    run = report("kernels-not-recorded", tmp_path)
    assert failed(run) == {LOST: (40, 100)}
    # 60 kernels have 58 gaps of 1 us between them, and one of 40 * 20 us + 1 us.
    assert idle(run) == {"launch": 58 * US, "not recorded": 801 * US}
    assert found(run) == {"broken_ledger"}


def test_times_of_zero_of_the_report(tmp_path: Path) -> None:
    run = report("kernel-times-zero", tmp_path)
    assert failed(run) == {TIMES: (5, 55)}
    assert sum(idle(run).values()) == 245 * US
    assert rows(run, "SELECT COUNT(*), COUNT(ts), SUM(dur) FROM kernel") == [(55, 50, 500 * US)]
    assert rows(run, "SELECT MAX(ts + dur) - MIN(ts) FROM kernel") == [(745 * US,)]
    assert rows(run, "SELECT COUNT(*) FROM slice WHERE cat = 'kernel'") == [(55,)]


def test_clocks_of_the_report(tmp_path: Path) -> None:
    run = report("kernels-before-their-launch", tmp_path)
    assert failed(run) == {EARLY: (100, 100)}
    ((note,),) = rows(run, f"SELECT note FROM ledger WHERE check_name = '{EARLY}'")
    assert "by up to 295 µs" in note
    assert idle(run) == {"unknown": 990 * US}
    assert found(run) <= {"broken_ledger", "inconsistent_times"}
    (latency,) = run.query("launch.latency").rows()
    assert latency["call_p50_ns"] is not None
    assert latency["start_p50_ns"] is None


# --- the same kinds, built here ----------------------------------------------------------------


def recorded(
    number: int,
    *,
    lost: Iterable[int] = (),
    shift: Callable[[float], float] = lambda _us: 0,
    start: float = 0,
    every: float = 20,
) -> list[Event]:
    """Launches, each of a kernel of 10 us that starts 5 us later, and a last wait; times in us."""
    calls = [launch(ts=start + every * n, correlation=n + 1) for n in range(number)]
    ran = [
        kernel(ts=at + shift(at), dur=10, correlation=n + 1)
        for n in range(number)
        if n not in lost and (at := start + every * n + 5)
    ]
    end = start + every * number
    wait = host("cudaDeviceSynchronize", ts=end, dur=1000, cat="cuda_runtime")
    return [*calls, *ran, wait]


def test_lost_records_are_counted_and_nobody_is_blamed_for_their_time(tmp_path: Path) -> None:
    run = loaded(tmp_path, recorded(50, lost=[*range(10, 20), 30]), recorded(50))
    assert rows(run, f"SELECT rank, value, total FROM ledger WHERE check_name = '{LOST}'") == [
        (0, 11, 50)
    ]
    # Gaps of 10 us between kernels; one of ten launches more, and one of one launch more.
    assert rows(run, "SELECT rank, cause, SUM(dur) FROM gap GROUP BY ALL ORDER BY ALL") == [
        (0, "host", 36 * 10 * US),
        (0, "not recorded", (210 + 30) * US),
        (1, "host", 49 * 10 * US),
    ]
    unknown = [row["unknowns"] for row in run.query("overview.findings").rows()]
    assert all("records of 11% of the launches are missing" in text for text in unknown)
    assert unknown


def test_lost_copies_are_counted_apart(tmp_path: Path) -> None:
    copies = [
        launch(ts=7 + 20 * n, correlation=100 + n, name="cudaMemcpyAsync", **{"External id": 5})
        for n in range(3)
    ]
    done = kernel("Memcpy DtoH (Device -> Pinned)", ts=16, dur=2, cat="gpu_memcpy", correlation=100)
    run = loaded(tmp_path, [*recorded(10), *copies, done])
    assert failed(run) == {COPIES: (2, 3)}
    assert idle(run)["not recorded"] == 2 * 10 * US


@pytest.mark.parametrize(("lost", "counted"), [([49], 1), (range(25, 50), 25)])
def test_records_lost_at_the_end_are_not_taken_for_cut_off(
    lost: list[int], counted: int, tmp_path: Path
) -> None:
    """The host waited for the device after these launches, so that they ran."""
    assert failed(loaded(tmp_path, recorded(50, lost=lost))) == {LOST: (counted, 50)}


def test_launches_that_were_queued_when_the_recording_ended_are_cut_off(tmp_path: Path) -> None:
    calls = [launch(ts=n, dur=0.5, correlation=n) for n in range(1, 41)]
    ran = [kernel(ts=10 * n, dur=10, correlation=n) for n in range(1, 31)]
    run = loaded(tmp_path, [*calls, *ran])
    assert failed(run) == {}
    cut = "SELECT value FROM ledger WHERE check_name = 'launches cut off by the end'"
    assert rows(run, cut) == [(10,)]


def runtime(name: str, *, ts: float, tid: int = 100) -> Event:
    return host(name, ts=ts, dur=1, cat="cuda_runtime", tid=tid)


@pytest.mark.parametrize(
    ("begin", "end", "tid"),
    [
        (["cudaStreamBeginCapture"], ["cudaStreamEndCapture"], 100),
        (["hipStreamBeginCapture"], [], 100),  # the recording ends first
        ([], ["cudaStreamEndCapture"], 100),  # it begins later
        ([], ["cuGraphInstantiateWithFlags"], 100),
        (["cudaStreamBeginCapture"], ["cudaStreamEndCapture"], 101),  # a backward pass
    ],
)
def test_launches_inside_a_capture_need_no_kernel(
    begin: list[str], end: list[str], tid: int, tmp_path: Path
) -> None:
    calls = [launch(ts=500 + n, dur=0.5, correlation=60 + n, tid=tid) for n in range(20)]
    marks = [runtime(name, ts=498) for name in begin] + [runtime(name, ts=522) for name in end]
    run = loaded(tmp_path, [*recorded(20), *calls, *marks])
    assert failed(run) == {}
    captured = "SELECT value FROM ledger WHERE check_name = 'launches in captures of graphs'"
    assert rows(run, captured) == [(20,)]


def test_a_capture_excuses_only_the_launches_inside(tmp_path: Path) -> None:
    marks = [runtime("cudaStreamBeginCapture", ts=900), runtime("cudaStreamEndCapture", ts=950)]
    captured = launch(ts=920, dur=0.5, correlation=99)
    run = loaded(tmp_path, [*recorded(40, lost=[20]), *marks, captured])
    assert failed(run) == {LOST: (1, 40)}


@pytest.mark.parametrize("name", ["capture-and-replays", "calls-without-work"])
def test_real_captures_and_calls_of_nothing_hold(name: str, tmp_path: Path) -> None:
    """Copies and sets of 0 bytes, and calls that failed, have no activity."""
    path = RECORDED / f"{name}.json.gz"
    run = traceql.open(traceql.load(path, tmp_path / "run.duckdb").database)
    assert failed(run) == {}
    assert "not recorded" not in idle(run)


def test_no_activity_at_all_fails(tmp_path: Path) -> None:
    run = loaded(tmp_path, recorded(20, lost=range(20)))
    assert failed(run) == {LOST: (20, 20)}


UNIX = 1_700_000_000 * 10**6  # us


@pytest.mark.parametrize(
    "ts", [0, UNIX + 92 * YEAR, UNIX - 30 * YEAR, UNIX - 3_600 * 10**6, UNIX - 2 * 10**6]
)
@pytest.mark.parametrize("number", [1, 3])
def test_impossible_times_take_no_part(ts: float, number: int, tmp_path: Path) -> None:
    odd = [kernel(ts=ts, dur=0 if ts == 0 else 7, correlation=n + 1) for n in range(number)]
    run = loaded(tmp_path, [*recorded(30, lost=range(number), start=UNIX), *odd])
    assert failed(run) == {TIMES: (number, 30)}
    assert rows(run, "SELECT COUNT(*), COUNT(ts), MAX(ts + dur) - MIN(ts) FROM kernel") == [
        (30, 30 - number, (20 * (29 - number) + 10) * US)
    ]
    assert sum(idle(run).values()) == (29 - number) * 10 * US
    base = rows(run, "SELECT base_time_ns FROM trace")[0][0]
    assert base == (UNIX * US if ts in (0, UNIX + 92 * YEAR, UNIX - 30 * YEAR) else ts * US)


def test_copies_that_were_not_timed_leave_a_real_recording_whole(tmp_path: Path) -> None:
    trace = json.loads(gzip.decompress((REAL / "rank0.pt.trace.json.gz").read_bytes()))
    copies = [e for e in trace["traceEvents"] if e.get("cat") == "gpu_memcpy"]
    for copy in copies:
        copy.update(ts=0, dur=0)
    (tmp_path / "rank0.json").write_text(json.dumps(trace))
    run = traceql.open(traceql.load(tmp_path / "rank0.json", tmp_path / "run.duckdb").database)
    assert {name: value for name, (value, _) in failed(run).items()} == {TIMES: len(copies)}
    assert rows(run, "SELECT COUNT(DISTINCT layer) FROM layer") == [(36,)]


def test_a_kernel_without_a_time_may_have_run_in_a_gap(tmp_path: Path) -> None:
    odd = kernel(ts=0, dur=0, correlation=11)
    run = loaded(tmp_path, [*recorded(30, lost=[10], start=UNIX), odd])
    assert idle(run) == {"host": 27 * 10 * US, "not recorded": 30 * US}


def test_collectives_without_a_time_are_not_matched(tmp_path: Path) -> None:
    """Of ten on each of two ranks, one has no time on each rank, not the same one."""

    def rank(untimed: int) -> list[Event]:
        times = [(0, 0) if n == untimed else (UNIX + 100 * n, 30) for n in range(10)]
        return [
            event
            for n, (ts, dur) in enumerate(times)
            for event in (
                launch(ts=UNIX + 100 * n - 5, correlation=n + 1),
                all_reduce(ts=ts, dur=dur, ranks=[0, 1], correlation=n + 1),
            )
        ]

    run = loaded(tmp_path, rank(3), rank(7))
    assert failed(run) == {TIMES: (1, 10)}
    assert rows(run, "SELECT rank, COUNT(*), COUNT(match_id) FROM collective GROUP BY ALL") == [
        (0, 9, 8),
        (1, 9, 8),
    ]


def test_all_kernels_at_zero_leave_no_window(tmp_path: Path) -> None:
    odd = [kernel(ts=0, dur=0, correlation=n + 1) for n in range(30)]
    run = loaded(tmp_path, [*recorded(30, lost=range(30), start=UNIX), *odd])
    assert failed(run) == {TIMES: (30, 30)}
    assert run.query("time.breakdown").rows() == []


def test_events_of_the_host_at_zero_are_counted(tmp_path: Path) -> None:
    odd = host("aten::mm", ts=0, dur=0)
    run = loaded(tmp_path, [*recorded(30, start=UNIX), odd])
    assert list(failed(run)) == ["events with impossible times"]
    assert rows(run, "SELECT base_time_ns FROM trace") == [(UNIX * US,)]


@pytest.mark.parametrize("ts", [0, UNIX + 92 * YEAR])
def test_what_calls_without_a_time_held_up_is_unknown(ts: float, tmp_path: Path) -> None:
    """The host issues each kernel 5 us before it starts; of three, it is unknown when."""
    events = recorded(30, start=UNIX)
    for number in (10, 11, 20):
        events[number]["ts"] = ts
    run = loaded(tmp_path, events)
    assert [(name, of[0]) for name, of in failed(run).items()] == [
        ("events with impossible times", 3)
    ]
    assert idle(run) == {"host": 26 * 10 * US, "unknown": 3 * 10 * US}
    assert rows(run, "SELECT COUNT(*), COUNT(ts) FROM launch WHERE correlation > 0") == [(30, 27)]
    assert rows(run, "SELECT MAX(queued) FROM launch_queue") == [(1,)]
    (latency,) = run.query("launch.latency").rows()
    assert (latency["launches"], latency["idle_launches"]) == (30, 27)
    assert latency["start_p99_ns"] == 5 * US


def test_two_parts_hours_apart_are_possible(tmp_path: Path) -> None:
    later = recorded(30, start=6 * 3_600 * 10**6)
    for event in later:
        if "correlation" in event["args"]:
            event["args"]["correlation"] += 100
    run = loaded(tmp_path, [*recorded(30), *later])
    assert failed(run) == {}
    assert rows(run, "SELECT COUNT(ts) FROM kernel") == [(60,)]


@pytest.mark.parametrize(
    ("shift", "check", "counted"),
    [
        (lambda _us: -300, EARLY, 100),  # all early
        (lambda us: -(us // 1000) * 50, EARLY, 50),  # drifts away; 50 us more each ms
        (lambda _us: 5e6, LATE, 1),  # the wait for the device returns too early
        (lambda us: us * 0.6, LATE, 1),
        (lambda us: us * 50e-6, DRIFT, 99_000),  # 50 ppm of 99 times 20 ms
        (lambda us: -us * 50e-6, EARLY, 92),  # by more than 2 us from the ninth on
    ],
)
def test_clocks_that_disagree_leave_causes_unknown(
    shift: Callable[[float], float], check: str, counted: int, tmp_path: Path
) -> None:
    every = 20_000 if shift(1) % 1 else 20
    run = loaded(tmp_path, recorded(100, shift=shift, every=every), recorded(100))
    assert {*failed(run)} - {DRIFT} == {check} - {DRIFT}
    assert failed(run)[check][0] == counted
    assert rows(run, "SELECT DISTINCT rank, cause FROM gap ORDER BY ALL") == [
        (0, "unknown"),
        (1, "host"),
    ]
    assert rows(run, "SELECT DISTINCT rank FROM launch_queue") == [(1,)]
    latency = run.query("launch.latency").rows()
    assert [row["start_p50_ns"] for row in latency] == [None, 5 * US]
    gaps = {row["cause"]: row["launched_ns"] for row in run.query("idle.gaps", limit=500).rows()}
    assert gaps["unknown"] is None
    assert gaps["host"] is not None


# --- collectives of several ranks --------------------------------------------------------------


@pytest.mark.parametrize("seq", [False, True])
def test_collectives_after_a_loss_are_matched_by_time(seq: bool, tmp_path: Path) -> None:
    """Ten operations, 100 us apart; rank 1 begins 4 us later and lacks a record, the seventh."""

    def events(late: int, lost: int | None) -> list[Event]:
        calls = [launch(ts=100 * n, correlation=n + 1) for n in range(10)]
        done = [
            all_reduce(
                ts=100 * n + 10 + late, dur=20 - late, ranks=(0, 1), correlation=n + 1,
                **({"Seq": n} if seq else {}),
            )
            for n in range(10)
            if n != lost
        ]  # fmt: skip
        return calls + done

    run = loaded(tmp_path, events(0, None), events(4, 6))
    assert failed(run)[LOST] == (1, 10)
    found = rows(
        run,
        "SELECT kernel.rank, (ts - 10_000) // 100_000, wait_ns, transfer_ns FROM collective "
        "INNER JOIN kernel ON kernel_id = kernel.id WHERE match_id IS NOT NULL ORDER BY ALL",
    )
    matched = [n for n in range(10) if n != 6]
    assert found == [
        (rank, n, (0 if rank else 4) * US, 16 * US) for rank in (0, 1) for n in matched
    ]
    others = (
        "SELECT COUNT(*), COUNT(wait_ns), COUNT(transfer_ns) FROM collective WHERE match_id IS NULL"
    )
    assert rows(run, others) == [(19 - len(found), 0, 0)]


@pytest.mark.parametrize(
    ("number", "untimed", "matched"),
    [
        (12, None, {*range(12)}),
        (12, 5, {*range(12)} - {5}),
        (12, 0, set()),  # the others fit an operation earlier just as well
        (4, None, set()),  # too few to compare clocks: time shows another order
        (4, 1, set()),
    ],
)
def test_operations_in_a_row_by_clocks_that_are_further_apart(
    number: int, untimed: int | None, matched: set[int], tmp_path: Path
) -> None:
    """One every 25 us; the clock of rank 1 is 40 us ahead, and one of its own has no time."""

    def events(ahead: int, untimed: int | None) -> list[Event]:
        times = [(0, 0) if n == untimed else (UNIX + ahead + 25 * n, 20) for n in range(number)]
        return [
            event
            for n, (ts, dur) in enumerate(times)
            for event in (
                launch(ts=UNIX + ahead + 25 * n - 5, correlation=n + 1),
                all_reduce(ts=ts, dur=dur, ranks=[0, 1], correlation=n + 1),
            )
        ]

    run = loaded(tmp_path, events(0, None), events(40, untimed))
    found = rows(
        run,
        "SELECT list(correlation ORDER BY kernel.rank) FROM collective "
        "INNER JOIN kernel ON kernel_id = kernel.id INNER JOIN launch ON launch_id = launch.id "
        "WHERE match_id IS NOT NULL GROUP BY match_id ORDER BY ALL",
    )
    assert found == [([n + 1, n + 1],) for n in sorted(matched)]


# --- a real recording, damaged -----------------------------------------------------------------


def damaged(keep: Callable[[Event], bool], folder: Path) -> tuple[traceql.Run, set[int], set[int]]:
    """A real recording without some GPU activities, and the calls of lost kernels and copies."""
    (path,) = REAL.glob("*.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))
    kept = [e for e in trace["traceEvents"] if e.get("cat") not in ON_GPU or keep(e)]
    launched = {e["args"]["correlation"] for e in kept if e.get("cat") in ON_GPU}
    calls = {
        e["args"]["correlation"]: "Memcpy" in e["name"]
        for e in trace["traceEvents"]
        if e.get("cat") in ("cuda_runtime", "cuda_driver")
        and any(word in e["name"] for word in ("LaunchKernel", "GraphLaunch", "Memcpy"))
    }
    missing = {number: is_copy for number, is_copy in calls.items() if number not in launched}
    write(folder / "trace.json", *kept)
    run = traceql.open(traceql.load(folder / "trace.json", folder / "run.duckdb").database)
    copies = {number for number, is_copy in missing.items() if is_copy}
    return run, missing.keys() - copies, copies


@pytest.mark.slow
@pytest.mark.parametrize(
    "keep",
    [
        lambda e: e["args"]["correlation"] % 10 != 3,
        lambda e: e["cat"] != "gpu_memcpy",
        lambda e: e["args"]["stream"] != 7,
        lambda e: e["args"]["correlation"] < 16_000,
    ],
    ids=["some of each", "no copies", "no main stream", "no second half"],
)
def test_lost_records_of_a_real_recording(keep: Callable[[Event], bool], tmp_path: Path) -> None:
    """The host is blamed for nothing that it is not blamed for where all is recorded."""
    run, kernels, copies = damaged(keep, tmp_path)
    found = {name: value for name, (value, _) in failed(run).items()}
    wanted = {LOST: len(kernels), COPIES: len(copies)}
    assert {name: found.get(name, 0) for name in wanted} == wanted
    assert max(wanted.values()) > 20
    whole, *_ = damaged(lambda _: True, tmp_path / "whole")
    assert failed(whole) == {}
    assert idle(run).get("host", 0) <= idle(whole)["host"]
