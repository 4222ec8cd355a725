"""Query whatif: what it predicts of recorded steps, and what it says where it does not know."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import output
from derived import database, rows
from shared_files import shared_file
from workload_runs import DENSE, EXPERTS, FOUR_RANKS, loaded

import traceql

BATCH16 = databases.EXAMPLES / "qwen3-8b-tp2-batch16"  # with peaks.json
SERVING = databases.EXAMPLES / "qwen3-8b-tp2-serving"  # its KV lengths are unknown

# Bytes of the weights of Qwen3-8B's gate_up_proj, at the 4,800 bytes per ns of an H200's memory.
GATE_UP_NS = 36 * 4096 * 2 * 12288 * 2 / 4800

Row = dict[str, Any]


@cache
def example(folder: Path) -> traceql.Trace:
    def load(file: Path) -> None:
        traceql.load([folder], file)

    return traceql.Trace(shared_file(f"{folder.name}-whatif.duckdb", load))


def asked(trace: traceql.Trace, **parameters: Any) -> dict[tuple[str, str], Row]:
    return {(row["kind"], row["part"]): row for row in trace.run("whatif", **parameters).rows()}


def predicted(trace: traceql.Trace, **parameters: Any) -> dict[str, Any]:
    """By part; of a role that computes and communicates, computation."""
    parts = asked(trace, **parameters)
    return {part: row["predicted_ns"] for (_, part), row in reversed(parts.items())}


def total(trace: traceql.Trace, **parameters: Any) -> Row:
    return asked(trace, **parameters)["total", "total"]


def runs(*quick: Any) -> list[Any]:
    """Parameters for pytest: all recorded runs, the quick ones not marked as slow."""
    return [
        pytest.param(run, id=run.model, marks=[] if run in quick else [pytest.mark.slow])
        for run in (DENSE, FOUR_RANKS, EXPERTS)
    ]


@pytest.mark.parametrize("run", runs(DENSE))
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_recorded_step_is_predicted_as_it_was(run: Any, phase: str) -> None:
    parts = asked(loaded(run), phase=phase)
    whole = parts.pop(("total", "total"))
    assert {row["how"] for row in parts.values()} == {"as measured"}
    assert all(row["predicted_ns"] == row["measured_ns"] for row in parts.values())
    assert sum(row["measured_ns"] for row in parts.values()) == pytest.approx(whole["measured_ns"])
    assert whole["predicted_ns"] == pytest.approx(whole["measured_ns"])


def test_measured_step_is_the_mean_of_the_typical_steps() -> None:
    sizes = (
        loaded(DENSE)
        .sql(
            "SELECT steps, len(step_ids) AS typical, gpu_ns FROM step_class WHERE phase = 'decode'"
        )
        .rows()
    )
    # Of the four steps of four requests, the first took 7.27 ms, the others 5.43 to 5.44.
    assert [(row["steps"], row["typical"]) for row in sizes] == [(4, 2), (1, 1)]
    assert total(loaded(DENSE))["measured_ns"] == pytest.approx(5_436_400)


@pytest.mark.parametrize("run", runs(DENSE, FOUR_RANKS))
def test_times_of_a_class_add_up(run: Any) -> None:
    assert not (
        loaded(run)
        .sql(
            "SELECT class_id FROM class_time INNER JOIN step_class USING (class_id) "
            "GROUP BY class_id, gpu_ns HAVING ABS(SUM(ns) - gpu_ns) > 0.001"
        )
        .rows()
    )


def test_memory_bound_product_loses_half_its_bytes_with_two_ranks() -> None:
    one, two = asked(loaded(DENSE)), asked(loaded(DENSE), tp=2)
    key = ("computing", "gate_up_proj")
    assert one[key]["floor_ns"] == pytest.approx(GATE_UP_NS, rel=0.001)
    assert two[key]["floor_ns"] == pytest.approx(GATE_UP_NS / 2, rel=0.001)
    # What it takes above the bytes stays; the bytes go at the best rate of the recording.
    saved = one[key]["measured_ns"] - two[key]["predicted_ns"]
    assert GATE_UP_NS / 2 < saved < GATE_UP_NS / 2 / 0.8
    assert two[key]["how"] == "roofline + measured rest"


def test_two_ranks_communicate_what_the_model_says() -> None:
    parts = asked(loaded(DENSE), tp=2)
    known = {part: row for (kind, part), row in parts.items() if kind == "communication"}
    # 36 all-reduces of 4 rows of 8 KiB: 4.0 us each, and the bytes at 450 GB/s.
    assert known["attn_allreduce"]["predicted_ns"] == pytest.approx(36 * (4000 + 32768 / 450))
    assert known["mlp_allreduce"]["predicted_ns"] == known["attn_allreduce"]["predicted_ns"]
    assert known["embed"]["predicted_ns"] == pytest.approx(4000 + 32768 / 450)
    # Logits of 4 rows of 151,936 numbers, of which each rank has half.
    assert known["logits_gather"]["predicted_ns"] == pytest.approx(13400 + 1215488 / 2 / 450)
    assert {row["how"] for row in known.values()} == {"fixed cost + link peak"}
    assert all(row["warning"] for row in known.values())


def test_unknown_waiting_makes_a_lower_bound() -> None:
    parts = asked(loaded(DENSE), tp=2)
    assert parts["waiting", "waiting"]["predicted_ns"] is None
    assert parts["total", "total"]["how"] == "lower bound"
    assert "without waiting" in parts["total", "total"]["warning"]
    assert total(loaded(DENSE), tp=2, no_wait=True)["how"] == "sum"


def test_one_rank_does_not_communicate() -> None:
    parts = asked(loaded(FOUR_RANKS), tp=1)
    for (kind, _), row in parts.items():
        if kind in ("communication", "waiting"):
            assert (row["predicted_ns"], row["how"]) == (0, "none with one rank")
    assert parts["total", "total"]["how"] == "sum"


@pytest.mark.slow
def test_operation_that_took_no_time_is_not_scaled() -> None:
    sent = asked(databases.trace("qwen3-8b-pp2-graph"), phase="prefill", batch=2)
    # Two of 8 MiB; recorded were 0 ns for 4 MiB, whose data had gone, and 40.0 us for 12 MB.
    row = sent["communication", "pp_send"]
    assert row["measured_ns"] == 0
    assert row["predicted_ns"] == pytest.approx(
        2 * 40_010.5 * (8 - 4) * 2**20 / (12_591_104 - (4 << 20))
    )


@pytest.mark.slow
def test_stages_still_wait_with_one_rank_each() -> None:
    waiting = asked(databases.trace("qwen3-8b-pp2-graph"))["waiting", "waiting"]
    assert waiting["measured_ns"] > 1e6
    assert waiting["predicted_ns"] == waiting["measured_ns"]


def test_no_wait_takes_away_the_waiting_alone() -> None:
    as_was, without = total(loaded(FOUR_RANKS)), asked(loaded(FOUR_RANKS), no_wait=True)
    waited = without["waiting", "waiting"]
    assert waited["measured_ns"] > 0
    assert waited["predicted_ns"] == 0
    left = without["total", "total"]["predicted_ns"]
    assert left == pytest.approx(as_was["predicted_ns"] - waited["measured_ns"])


def test_another_size_is_predicted_and_checked() -> None:
    row = total(loaded(DENSE), batch=2)
    # Steps of two requests were recorded too, but only one of them: it is not a base, but a check.
    assert row["predicted_ns"] == pytest.approx(5_345_282, rel=0.02)
    assert row["error_pct"] == pytest.approx(1.0, abs=1.0)


def test_size_far_beyond_the_recorded_ones_is_said() -> None:
    parts = asked(loaded(DENSE), batch=64)
    assert parts["computing", "gate_up_proj"]["warning"] == "64 rows, recorded up to 4"
    assert "from a batch of 4" in parts["total", "total"]["warning"]
    assert "does not fit" in total(loaded(DENSE), batch=4096, context=4000)["warning"]
    assert "does not fit" not in total(loaded(DENSE), batch=64)["warning"]


@pytest.mark.slow
def test_experts_of_more_tokens_read_more_weights() -> None:
    few, many = (asked(loaded(EXPERTS), batch=n) for n in (4, 16))
    key = ("computing", "experts_down")
    distinct = (1 - (1 - 8 / 128) ** 16) / (1 - (1 - 8 / 128) ** 4)
    assert many[key]["floor_ns"] / few[key]["floor_ns"] == pytest.approx(distinct)
    assert many[key]["predicted_ns"] > few[key]["predicted_ns"]


def test_another_gpu_has_other_roofs() -> None:
    own, other = asked(loaded(DENSE)), asked(loaded(DENSE), peak="h100")
    key = ("computing", "gate_up_proj")
    assert other[key]["floor_ns"] == pytest.approx(own[key]["floor_ns"] * 4800 / 3350)
    assert other[key]["predicted_ns"] > own[key]["predicted_ns"]
    assert "GPU: NVIDIA H100 80GB HBM3" in other["total", "total"]["warning"]


@pytest.mark.parametrize(
    ("parameters", "warning"),
    [({"peak": "no such"}, "no GPU of data_sheet_peak"), ({"tp": 3}, "tp can be 1, 2, 4, 8 or 16")],
)
def test_unknown_sizes_are_no_zeros(parameters: Row, warning: str) -> None:
    parts = asked(loaded(DENSE), **parameters)
    assert parts["computing", "gate_up_proj"]["predicted_ns"] is None
    assert parts["computing", "gate_up_proj"]["how"] == "unknown"
    assert parts["total", "total"]["how"] == "unknown"
    assert parts["total", "total"]["predicted_ns"] is None
    assert warning in parts["total", "total"]["warning"]


def test_leaving_graphs_is_unknown() -> None:
    parts = asked(loaded(DENSE), graph="off")
    assert parts["idle", "idle: launch"]["predicted_ns"] is None
    assert parts["total", "total"]["how"] == "lower bound"
    assert total(loaded(DENSE), graph="on")["predicted_ns"] == total(loaded(DENSE))["measured_ns"]


@pytest.mark.slow
def test_unknown_kv_lengths_leave_attention_unknown() -> None:
    trace = example(SERVING)
    assert predicted(trace)["attention"] == asked(trace)["computing", "attention"]["measured_ns"]
    without, with_context = total(trace, batch=32), total(trace, batch=32, context=600)
    assert "without attention" in without["warning"]
    assert "give --context" in without["warning"]
    assert with_context["how"] == "sum"
    assert with_context["predicted_ns"] > without["predicted_ns"]


@pytest.mark.slow
def test_measured_products_and_collectives_are_preferred() -> None:
    parts = asked(example(BATCH16), batch=64)
    assert parts["computing", "gate_up_proj"]["how"] == "measured product"
    assert parts["communication", "attn_allreduce"]["how"] == "measured collective"


def test_no_requests_have_no_rows() -> None:
    assert not asked(loaded(DENSE), batch=0)
    assert not asked(loaded(DENSE), context=0)


def test_curve_joins_measured_sizes_and_goes_on_as_the_largest() -> None:
    tables = database()
    tables.con.execute("UPDATE trace SET device_name = 'NVIDIA H200'")
    collectives = [
        {"op": "all_reduce", "ranks": 2, "bytes": size, "ns": ns, "algorithm": way}
        for size, ns, way in [
            (1000, 12_000, "nccl"),
            (1000, 4000, "custom"),
            (3000, 5000, "custom"),
        ]
    ]
    tables.con.execute(
        "INSERT INTO peak_file (device_name, path, document) "
        "VALUES ('NVIDIA H200', 'peaks.json', ?)",
        [json.dumps({"collectives": collectives})],
    )
    assert rows(
        tables,
        "SELECT from_bytes, to_bytes, ns, ns_per_byte, is_measured FROM transfer_curve "
        "WHERE op = 'all_reduce' AND ranks = 2",
    ) == [
        (0, 1000, 4000, 0, False),
        (1000, 3000, 4000, 0.5, True),
        (3000, None, 5000, 5000 / 3000, False),
    ]
    assert rows(
        tables, "SELECT ns, source FROM transfer_curve WHERE op = 'all_reduce' AND ranks = 4"
    ) == [(4100, "fixed cost")]


def test_options_may_be_written_with_hyphens() -> None:
    database_file = loaded(FOUR_RANKS).path
    answers = [
        output("run", "whatif", database_file, option, "--format", "csv")
        for option in ("--no-wait", "--no_wait")
    ]
    assert answers[0] == answers[1]
    assert "left out" in answers[0]
