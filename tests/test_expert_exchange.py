"""Tokens exchanged between replicas for their experts: Qwen3-30B-A3B, DP 2 x TP 2, on four H200s.

Two steps: one in which the replicas have unequal numbers of tokens (908 and 7), so that NCCL makes
broadcasts and reductions, and a decode step in a CUDA graph.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import traceql

pytestmark = pytest.mark.slow
RECORDED = Path(__file__).parent / "data" / "moe-dp2-tp2" / "traces"
LAYERS, STEPS = 48, 2


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traceql.Trace]:
    file = tmp_path_factory.mktemp("exchange") / "run.duckdb"
    traceql.load(RECORDED, file)
    with traceql.open(file) as opened:
        yield opened


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return [
        json.loads(gzip.decompress(path.read_bytes()))
        for path in sorted(RECORDED.glob("rank*.json.gz"))
    ]


def exchanges(document: dict[str, Any]) -> list[tuple[int, int]]:
    """Start and end, ns, of NCCL's kernels that no event describes: those of the experts."""
    return sorted(
        (round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000))
        for e in document["traceEvents"]
        if e.get("cat") == "kernel"
        and e["name"].startswith("nccl")
        and "Collective name" not in e["args"]
    )


def test_an_exchange_is_among_the_counterparts_of_the_replicas(
    trace: traceql.Trace, documents: list[dict[str, Any]]
) -> None:
    listed = {
        tuple(group["ranks"])
        for document in documents
        for group in document["distributedInfo"]["pg_config"]
        if group["pg_size"] == 2
    }
    found = trace.sql("""
        SELECT DISTINCT collective.group_ranks
        FROM collective JOIN kernel ON kernel_id = kernel.id
        WHERE kernel.role IN ('dispatch', 'combine')
    """).rows()
    groups = {tuple(map(int, row["group_ranks"].split())) for row in found}
    assert groups == {(0, 2), (1, 3)}  # those of tensor parallelism are (0, 1), (2, 3)
    assert groups <= listed


def test_waits_are_for_the_counterpart_in_the_other_replica(
    trace: traceql.Trace, documents: list[dict[str, Any]]
) -> None:
    wait_ns, comm_ns = Counter[int](), Counter[int]()
    for pair in ((0, 2), (1, 3)):
        for together in zip(*(exchanges(documents[rank]) for rank in pair), strict=True):
            arrival = max(start for start, _ in together)
            for rank, (start, end) in zip(pair, together, strict=True):
                wait_ns[rank] += min(end - start, arrival - start)
                comm_ns[rank] += end - start
    for row in trace.run("dp.sync"):
        rank, other = row["rank"], (row["rank"] + 2) % 4
        assert (row["wait_ns"], row["cost_ns"]) == (wait_ns[rank], wait_ns[other])
        assert (row["operations"], row["stray"]) == (2 * LAYERS * STEPS, 0)
    for row in trace.run("ep.balance"):
        rank = row["rank"]
        experts_ns = [
            round(e["dur"] * 1000)
            for e in documents[rank]["traceEvents"]
            if e["name"] == "fused_moe_kernel"
        ]
        assert (row["form"], row["calls"]) == ("dispatch/combine", len(experts_ns) / 2)
        assert row["experts_ns"] == sum(experts_ns) > 0
        assert (row["comm_ns"], row["wait_ns"]) == (comm_ns[rank], wait_ns[rank])


def test_unequal_tokens_are_gathered_and_scattered_by_other_kernels(trace: traceql.Trace) -> None:
    found = trace.sql("""
        SELECT
            kernel.role,
            collective.op,
            regexp_extract(kernel.name, 'ncclDevKernel_([A-Za-z]+)', 1) AS called,
            COUNT(*) AS kernels,
            COUNT(collective.bytes) AS sized
        FROM collective JOIN kernel ON kernel_id = kernel.id
        WHERE kernel.role IN ('dispatch', 'combine')
        GROUP BY ALL
        ORDER BY ALL
    """).rows()
    assert [tuple(row.values()) for row in found] == [
        ("combine", "reduce_scatter", "Reduce", 4 * LAYERS, 0),
        ("combine", "reduce_scatter", "ReduceScatter", 4 * LAYERS, 0),
        ("dispatch", "all_gather", "AllGather", 4 * LAYERS, 0),
        ("dispatch", "all_gather", "Broadcast", 4 * LAYERS, 0),
    ]
