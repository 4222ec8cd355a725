"""Situations of real files, mixed at random: numbers of ranks, windows and busy times are exact."""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import traces
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from merging import LABELS, Trace, merged

import traceql
from traceql.readers.contract import ReadMode

UNESCAPED = 'compile(<eval "a\\d">)'
BEGIN = 10**12  # us since the base time of the profiler
EARLY = 300  # us that the GPU's clock is behind, if it is wrong
# The check that fails for a fault of a recording.
FAULTS = {
    "lost": "launches without a recorded kernel",  # the last kernel
    "zero": "activities with impossible times",  # its time is 0
    "early": "kernels before their launch",  # all of them
}
Span = tuple[int, int]  # first and last time, us


@dataclass(frozen=True)
class Situation:
    """What was recorded, and how it is in files.

    Attributes:
        kernels: of each rank, the start (us), the duration (us), the stream, and whether it ran on
            the second device of its process.
        faults: of each rank, a key of FAULTS or None.
        merge: how a program merged the ranks into one file; None for a file of each rank.
        names: of the files of ranks.
        order: in which ranks are merged or written.
        has_jobs: whether files have distributedInfo.
        front_end: whether the file of a front end lies beside them.
        pairs: whether host events are begins and ends.
        is_escaped: whether names of host events are.
    """

    kernels: list[list[tuple[int, int, int, bool]]]
    faults: list[str | None]
    merge: str | None
    names: str
    order: list[int]
    has_jobs: bool
    front_end: bool
    pairs: bool
    is_escaped: bool
    reader: ReadMode


kernels = st.lists(
    st.tuples(st.integers(0, 900), st.integers(1, 60), st.sampled_from([7, 21]), st.booleans()),
    min_size=2,
    max_size=5,
    unique_by=lambda one: one[0],
)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    number = draw(st.sampled_from([1, 2, 2, 3, 4, 11]))
    return Situation(
        kernels=draw(st.lists(kernels, min_size=number, max_size=number)),
        faults=draw(
            st.lists(st.sampled_from([None, None, *FAULTS]), min_size=number, max_size=number)
        ),
        merge=draw(st.sampled_from([None, *LABELS])),
        names=draw(st.sampled_from(["1795-TP-{}.trace.json", "rank{}.json", "trace_{}.json"])),
        order=draw(st.permutations(range(number))),
        has_jobs=draw(st.booleans()),
        front_end=draw(st.booleans()),
        pairs=draw(st.booleans()),
        is_escaped=draw(st.booleans()),
        reader=draw(st.sampled_from([ReadMode.PERFETTO, ReadMode.STREAM])),
    )


def host_event(situation: Situation, name: str, *, ts: int, pid: int) -> list[Trace]:
    whole = traces.host(name, ts=ts, dur=40) | {"pid": pid}
    if not situation.pairs:
        return [whole]
    end = {key: whole[key] for key in ("name", "pid", "tid")} | {"ph": "E", "ts": ts + 40}
    return [{key: whole[key] for key in whole if key != "dur"} | {"ph": "B"}, end]


def trace_of(situation: Situation, rank: int) -> Trace:
    pid = 4000 + rank
    events = host_event(situation, UNESCAPED, ts=BEGIN - 50, pid=pid)
    fault, last = situation.faults[rank], len(situation.kernels[rank])
    for id_, (ts, dur, stream, is_second) in enumerate(situation.kernels[rank], start=1):
        events.append(traces.launch(ts=BEGIN + ts - 5, correlation=id_) | {"pid": pid})
        place: dict[str, Any] = {"stream": stream, "device": 2 * rank + is_second}
        if fault == "zero" and id_ == last:
            events.append(traces.kernel(ts=0, dur=0, correlation=id_, **place))
        elif fault != "lost" or id_ != last:
            began = BEGIN + ts - EARLY * (fault == "early")
            events.append(traces.kernel(ts=began, dur=dur, correlation=id_, **place))
    # The host waits until all has run.
    events.append(
        traces.host("cudaDeviceSynchronize", ts=BEGIN + 1000, dur=9, cat="cuda_runtime")
        | {"pid": pid}
    )
    job = {"rank": rank, "world_size": len(situation.kernels)}
    return {"traceEvents": events} | ({"distributedInfo": job} if situation.has_jobs else {})


def write(situation: Situation, folder: Path) -> None:
    files = {}
    ranks = {rank: trace_of(situation, rank) for rank in situation.order}
    if situation.merge:
        files["merged.json"] = merged(ranks, LABELS[situation.merge])
    else:
        files = {situation.names.format(rank): trace for rank, trace in ranks.items()}
    if situation.front_end:
        events = host_event(situation, "generate", ts=BEGIN + 500, pid=99)
        files["host_99.async_llm.1795.pt.trace.json"] = {"traceEvents": events}
    for name, trace in files.items():
        text = json.dumps(trace)
        if not situation.is_escaped:
            text = text.replace(json.dumps(UNESCAPED), f'"{UNESCAPED}"')
        (folder / name).write_text(text)


def busy(spans: list[Span]) -> int:
    """The time in which any of the spans is open, us."""
    total, until = 0, -1
    for first, last in sorted(spans):
        total += max(0, last - max(first, until))
        until = max(until, last)
    return total


def expected(situation: Situation) -> list[tuple[Any, ...]]:
    """Rank, device, number of kernels, window and busy time (ns) of each device."""
    spans: dict[tuple[int, int], list[Span]] = {}
    for rank, of_rank in enumerate(situation.kernels):
        kept = of_rank[:-1] if situation.faults[rank] in ("lost", "zero") else of_rank
        for ts, dur, _, is_second in kept:
            spans.setdefault((rank, 2 * rank + is_second), []).append((ts, ts + dur))
    return [
        (*place, len(of), 1000 * (max(e for _, e in of) - min(b for b, _ in of)), 1000 * busy(of))
        for place, of in sorted(spans.items())
    ]


DEVICES = """
    WITH covered AS (
        SELECT
            rank, device, ts, ts + dur AS stop,
            MAX(ts + dur) OVER (
                PARTITION BY rank, device ORDER BY ts, id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before
        FROM kernel
        WHERE ts IS NOT NULL
    )
    SELECT
        rank, device, COUNT(*), MAX(stop) - MIN(ts),
        CAST(SUM(GREATEST(stop - GREATEST(ts, COALESCE(before, ts)), 0)) AS BIGINT)
    FROM covered GROUP BY ALL ORDER BY ALL
"""
# From the launch to the kernel, us, of each rank.
DELAYS = """
    SELECT DISTINCT kernel.rank, (kernel.ts - slice.ts) / 1000
    FROM kernel
    LEFT JOIN slice ON slice.id = launch_id AND slice.rank = kernel.rank
    WHERE kernel.ts IS NOT NULL
    ORDER BY ALL
"""


def require_right(situation: Situation, *, with_findings: bool) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "traces").mkdir()
        write(situation, folder / "traces")
        database = folder / "run.duckdb"
        loaded = traceql.load(folder / "traces", database, reader=situation.reader)
        run = traceql.open(loaded.database)

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return run.select(sql).fetchall()

        ranks = len(situation.kernels)
        hosts = [(None, None)] * situation.front_end
        assert rows("SELECT rank, world_size FROM trace ORDER BY rank NULLS LAST") == [
            *((rank, ranks) for rank in range(ranks)), *hosts
        ]  # fmt: skip
        assert rows(DEVICES) == expected(situation)
        assert rows(DELAYS) == [
            (rank, 5 - EARLY * (fault == "early")) for rank, fault in enumerate(situation.faults)
        ]
        names = rows("SELECT COUNT(*) FROM slice WHERE name LIKE 'compile(<eval %'")
        assert names == [(ranks,)]
        failed = rows("SELECT rank, check_name FROM ledger WHERE NOT ok ORDER BY rank")
        assert failed == [
            (rank, FAULTS[fault]) for rank, fault in enumerate(situation.faults) if fault
        ]
        if with_findings:
            kinds = {row["kind"] for row in run.query("overview.findings").rows()}
            assert ("broken ledger" in kinds) == bool(failed)
        for rank, fault in enumerate(situation.faults):
            causes = {cause for (cause,) in rows(f"SELECT cause FROM gap WHERE rank = {rank}")}
            assert fault != "early" or causes <= {"unknown"}


TOGETHER = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # an example takes a second
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@settings(TOGETHER, max_examples=6)
@given(situations())
def test_mixed_situations(situation: Situation) -> None:
    require_right(situation, with_findings=False)


@settings(TOGETHER, max_examples=100)
@given(situations())
def test_many_mixed_situations(situation: Situation) -> None:
    require_right(situation, with_findings=True)
