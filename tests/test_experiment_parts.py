"""What experiments say of profiled points, on tables whose numbers a test knows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from written_results import Row, WrittenPoint, latencies, only, total, write_results

from traceql.runs.experiment.experiment import Experiment, fill
from traceql.runs.experiment.tables import derive, insert

MOE = ("experts_ns", "routing_ns", "transfer_ns", "wait_ns", "unmatched_ns", "rest_ns")
SAID = [latencies(ttft=20.0, tpot=5.0, itl=4.0)] * 3


def written(folder: Path, points: Sequence[WrittenPoint], **tables: Sequence[Row]) -> Experiment:
    """An experiment whose points have rows in the tables of profiles, but no traces."""
    con = duckdb.connect()
    fill(con, [write_results(folder, points)])
    for table, rows in tables.items():
        insert(con, table, list(rows))
    for table in ("profile_step_part", "profile_main_stratum"):
        con.execute(f"DROP TABLE {table}")
        derive(con, table)
    return Experiment(con, "written")


def stratum(
    point: int, name: str, *, grain: str = "rows", units: int = 1, lanes: int = 1, **more: Any
) -> Row:
    known = {"phase": name.partition(",")[0], "typical": units, "gpu_ns": 100 * units * lanes}
    return {
        "point_id": point, "grain": grain, "stratum": name, "units": units, "lanes": lanes,
    } | known | more  # fmt: skip


def part(point: int, stratum: str, name: str, ns: int, role: str | None = None, **more: Any) -> Row:
    return {
        "point_id": point, "grain": "rows", "stratum": stratum, "part": name, "role": role,
        "ns": ns,
    } | more  # fmt: skip


def test_the_smallest_tp_is_the_base_and_strata_are_weighted_by_its_steps(tmp_path: Path) -> None:
    one, two, other = "decode, 1 row", "decode, 2 rows", "decode, 3 to 4 rows"
    points = [WrittenPoint(SAID, tp=tp, batch=2) for tp in (8, 4, 2)]
    points.append(WrittenPoint(SAID, tp=1, batch=2, prompt_tokens=64))  # another load
    strata = [
        stratum(2, one, units=3, lanes=2, tokens=1.0), stratum(2, two, lanes=2, tokens=2.0),
        stratum(2, other, lanes=2, tokens=3.0),
        stratum(0, one, lanes=8, tokens=1.0), stratum(0, two, units=7, lanes=8, tokens=2.0),
        stratum(0, other, lanes=8, tokens=4.0),  # of more tokens than in the base
        stratum(3, one, tokens=1.0),
    ]  # fmt: skip
    parts = [
        # Base: of each of 3 steps and 2 lanes 40 ns of products, 8 of norms, 20 of transfer.
        part(2, one, "computing", 240, "o_proj"), part(2, one, "computing", 48, "input_norm"),
        part(2, one, "exposed_transfer", 120, "mlp_allreduce"),
        part(2, two, "computing", 120, "o_proj"), part(2, two, "idle", 32, cause="host"),
        part(2, other, "computing", 9_999, "o_proj"), part(3, one, "computing", 9_999, "o_proj"),
        # TP 8: of each of 8 lanes.
        part(0, one, "computing", 80, "o_proj"), part(0, one, "computing", 64, "input_norm"),
        part(0, one, "exposed_wait", 160, "mlp_allreduce"),
        part(0, two, "computing", 560, "o_proj"), part(0, two, "exposed_copy", 112, "sample"),
        part(0, two, "idle", 56, cause="host"), part(0, two, "other_step", 112),
        part(0, other, "computing", 9_999, "o_proj"),
    ]  # fmt: skip
    with written(tmp_path, points, profile_stratum=strata, profile_typical_part=parts) as opened:
        row = only(opened.run("tp.overhead").rows())
        roles = {row["role"]: row for row in opened.run("tp.overhead", by="role")}
    assert (row["point"], row["base"]) == ("TP 8, 128 in", "TP 2, 128 in")
    assert (row["tp"], row["base_tp"], row["steps"], row["base_steps"]) == (8, 2, 8, 4)
    # Weights 3/4 and 1/4. Products: 3/4 10 + 1/4 10 less a quarter of 3/4 40 + 1/4 60: 10 - 11.25.
    assert (roles["o_proj"]["step_ns"], roles["o_proj"]["ideal_ns"]) == (10, 11)
    assert roles["o_proj"]["work_ns"] == -1  # it shrinks by more than the ranks grow
    assert (roles["input_norm"]["step_ns"], roles["input_norm"]["ideal_ns"]) == (6, 2)  # 1.5
    assert roles["mlp_allreduce"]["wait_ns"] == 15
    assert roles["mlp_allreduce"]["transfer_ns"] == -4  # 0 - (15 / 4 = 3.75)
    assert row["work_ns"] == -1 + 4
    # A quarter of one step's 2, 1 and 2 ns: half a nanosecond is even.
    assert row["idle_ns"] == round(0.25) - round(0.25 * 16 / 4)
    assert row["tokens_pct"] == 0
    # 3 + 1 of 5 units in the base, 1 + 7 of 9 in the point, which is more.
    assert row["compared_pct"] == pytest.approx(80)


def test_kv_lengths_count_if_both_have_them_and_unknown_tokens_stay_unknown(tmp_path: Path) -> None:
    points = [WrittenPoint(SAID, tp=tp, batch=1) for tp in (1, 2)]
    short, long, plain = "decode, 1 row, KV 1 to 1", "decode, 1 row, KV 2 to 3", "decode, 1 row"
    strata = [stratum(0, short, grain="kv"), stratum(0, plain), stratum(1, plain)]
    parts = [part(point, plain, "computing", 10 * (2 - point), "act") for point in (0, 1)]
    both = [*strata, stratum(1, long, grain="kv")]
    for tables, compared in ((strata, 1), (both, 0)):
        folder = tmp_path / str(compared)
        with written(folder, points, profile_stratum=tables, profile_typical_part=parts) as opened:
            rows = opened.run("tp.overhead").rows()
        assert len(rows) == compared
        for row in rows:
            assert (row["overhead_ns"], row["efficiency_pct"], row["tokens_pct"]) == (0, 100, None)


def test_experts_are_set_against_what_they_exchange(tmp_path: Path) -> None:
    decode = "decode, 1 row"
    points = [
        WrittenPoint(SAID, tp=1, batch=1),
        WrittenPoint(SAID, tp=2, ep=True, batch=1),
        WrittenPoint(SAID, tp=1, dp=2, ep=True, batch=1),
        WrittenPoint(SAID, tp=4, batch=1),
        WrittenPoint(SAID, tp=8, batch=1),  # a dense layer alone
    ]
    strata = [stratum(point, decode, tokens=1.0) for point in range(5)]
    experts = [
        part(point, decode, "computing", ns, role)
        for point in range(4)
        for role, ns in (("experts_gate_up", 60), ("experts_down", 30), ("topk", 10), ("act", 5))
    ]
    exchange = [
        part(1, decode, "exposed_transfer", 40, "mlp_allreduce"),
        part(1, decode, "exposed_copy", 2, "mlp_allreduce"),
        part(1, decode, "exposed_wait", 8, "mlp_allreduce"),
        part(1, decode, "exposed_wait", 7, "attn_allreduce"),
        part(2, decode, "exposed_transfer", 100, "dispatch"),
        part(2, decode, "computing", 50, "combine"),
        part(2, decode, "exposed_transfer", 33, "mlp_allreduce"),
        part(3, decode, "exposed_unmatched", 20, "mlp_allreduce"),
        part(4, decode, "exposed_transfer", 20, "mlp_allreduce"),
    ]
    with written(
        tmp_path, points, profile_stratum=strata, profile_typical_part=[*experts, *exchange]
    ) as opened:
        rows = opened.run("ep.exchange").rows()
    assert [(row["point"], row["form"], row["transfer_ns"], row["wait_ns"]) for row in rows] == [
        ("TP 1", None, 0, 0),
        ("TP 2, EP", "all-reduce", 42, 8),
        ("TP 1, DP 2, EP", "dispatch/combine", 150, 0),
        ("TP 4", "all-reduce", None, None),
    ]
    for row in rows:
        assert total(row, MOE) == row["step_ns"]
        assert row["moe_ns"] + row["rest_ns"] == row["step_ns"]
        assert (row["experts_ns"], row["routing_ns"], row["steps"]) == (90, 10, 1)
    assert [row["exchange_ratio"] for row in rows] == [0, 0.5, 1.5, 0.2]
    assert [row["rest_ns"] for row in rows] == [5, 12, 38, 5]
    assert rows[3]["exchange_pct"] == pytest.approx(100 * 20 / 125)


def bubble(point: int, rank: int, stage: int, computing: int, bubble: int) -> Row:
    return {
        "point_id": point, "rank": rank, "pp_rank": stage, "window_ns": 100,
        "computing_ns": computing, "bubble_ns": bubble, "neither_ns": 100 - computing - bubble,
        "microbatches": 3, "ideal_pct": 25.0,
    }  # fmt: skip


def test_bubbles_are_those_of_stages_and_unknown_if_one_is_missing(tmp_path: Path) -> None:
    points = [WrittenPoint(SAID, tp=2, pp=2, batch=1), WrittenPoint(SAID, pp=4, batch=1)]
    rows = [
        bubble(0, 0, 0, 20, 60), bubble(0, 1, 0, 40, 50), bubble(0, 2, 1, 60, 30),
        bubble(0, 3, 1, 60, 40), bubble(1, 0, 0, 50, 50), bubble(1, 1, 1, 50, 50),
    ]  # fmt: skip
    with written(tmp_path, points, profile_bubble=rows) as opened:
        first, last, *unknown = opened.run("pp.bubble").rows()
    assert (first["stage"], first["ranks"]) == (0, 2)
    assert (first["bubble_pct"], first["ideal_pct"]) == (55, 25)
    assert (last["bubble_pct"], last["computing_pct"], last["neither_pct"]) == (35, 60, 5)
    assert (first["computing_ratio"], last["computing_ratio"]) == pytest.approx((2 / 3, 4 / 3))
    assert first["imbalance"] == last["imbalance"] == pytest.approx(60 / 45)
    for row in unknown:
        assert (row["bubble_pct"], row["imbalance"], row["computing_pct"]) == (None, None, 50)
