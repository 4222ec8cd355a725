"""Query whatif: what it predicts of recorded steps, and what it says where it does not know."""

import json
from functools import cache
from typing import Any

import databases
import pytest
from command_line import refusal
from derived import Tables, answer, database, insert, rows
from workload_runs import DENSE, EXPERTS, FOUR_RANKS, loaded

import traceql

pytestmark = pytest.mark.slow


# Bytes of the weights of Qwen3-8B's gate_up_proj, at the 4,800 bytes per ns of an H200's memory.
GATE_UP_NS = 36 * 4096 * 2 * 12288 * 2 / 4800

Row = dict[str, Any]


@cache
def asked(trace: traceql.Trace, **parameters: Any) -> dict[tuple[str, str], Row]:
    return {(row["kind"], row["part"]): row for row in trace.run("whatif", **parameters).rows()}


def total(trace: traceql.Trace, **parameters: Any) -> Row:
    return asked(trace, **parameters)["total", "total"]


@pytest.mark.parametrize("run", [DENSE, FOUR_RANKS, EXPERTS], ids=lambda run: run.model)
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_recorded_step_is_predicted_as_it_was(run: Any, phase: str) -> None:
    parts = asked(loaded(run), phase=phase)
    whole = parts.pop(("total", "total"))
    assert {row["how"] for row in parts.values()} == {"as measured"}
    assert all(row["predicted_ns"] == row["measured_ns"] for row in parts.values())
    assert sum(row["measured_ns"] for row in parts.values()) == pytest.approx(whole["measured_ns"])
    assert whole["predicted_ns"] == pytest.approx(whole["measured_ns"])


def test_measured_step_is_the_mean_of_the_typical_steps() -> None:
    sizes = loaded(DENSE).select(
        "SELECT steps, len(step_ids) AS typical FROM step_class WHERE phase = 'decode'"
    )
    # Of the four steps of four requests, the first took 7.27 ms, the others 5.43 to 5.44.
    assert [tuple(row.values()) for row in sizes.rows()] == [(4, 2), (1, 1)]
    assert total(loaded(DENSE))["measured_ns"] == pytest.approx(5_436_400)


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
    # How long the ranks will wait is unknown.
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


def test_no_wait_takes_away_the_waiting_alone() -> None:
    as_was, without = total(loaded(FOUR_RANKS)), asked(loaded(FOUR_RANKS), no_wait=True)
    waited = without["waiting", "waiting"]
    assert waited["measured_ns"] > 0
    assert waited["predicted_ns"] == 0
    left = without["total", "total"]["predicted_ns"]
    assert left == pytest.approx(as_was["predicted_ns"] - waited["measured_ns"])


def steps(tables: Tables, batch: int, computing: Row, **other: Any) -> None:
    """A class of decode steps of so many requests, whose roles compute for so many ns."""
    sizes = {
        "class_id": batch, "rank": 0, "phase": "decode", "in_graph": True, "in_full_graph": True,
        "batch": batch, "context_requests": 0, "generation_requests": batch, "tokens": batch,
        "executed_tokens": batch, "logit_rows": batch, "steps": 1, "is_frequent": True,
        "gpu_ns": sum(computing.values()),
    }  # fmt: skip
    insert(tables, "step_class", sizes | other)
    for role, ns in computing.items():
        time = {"class_id": batch, "part": "computing", "role": role, "ns": ns, "kernels": 1}
        insert(tables, "step_class_time", time)


def one_rank(device_name: str | None = "NVIDIA H200", tp: int = 1) -> Tables:
    tables = Tables()
    insert(tables, "trace", {"rank": 0, "dialect": "pytorch", "device_name": device_name})
    tables.execute(
        "FROM layout, step_class, step_class_time, cost, rank_model_part, measured_device"
    )
    tables.con.execute("DELETE FROM layout")
    insert(tables, "layout", {"rank": 0, "tp_size": tp, "pp_size": 1})
    return tables


def part_of_model(tables: Tables, role: str, **sizes: Any) -> None:
    """One layer, with a weight of a byte and without FLOPs unless given."""
    none = {
        "rank": 0, "tp": 1, "role": role, "formula": "product", "dtype": "bf16",
        "rows_of": "tokens", "layers": 1, "flops_per_row": 0, "context_pair_flops": 0,
        "generation_pair_flops": 0, "weight_bytes": 1, "row_bytes": 0, "kv_bytes": 0,
        "tensor_bytes": [],
    }  # fmt: skip
    insert(tables, "rank_model_part", none | sizes)


def told(tables: Tables, **parameters: Any) -> dict[str, Row]:
    """What is predicted, by part."""
    names = ("kind", "measured_ns", "predicted_ns", "floor_ns", "how", "error_pct", "warning")
    answers = answer(tables, "whatif", **parameters)
    return {part: dict(zip(names, row, strict=True)) for part, *row in answers}


def waited(*ns: int) -> Tables:
    """Steps of 1, 2, ... requests, of which each samples for 100 ns and waits as long as given."""
    tables = one_rank(None, tp=2)
    for batch, wait_ns in enumerate(ns, start=1):
        steps(tables, batch, {"sample": 100}, gpu_ns=100 + wait_ns)
        wait = {"part": "exposed_wait", "role": "mlp_allreduce", "ns": wait_ns, "kernels": 1}
        insert(tables, "step_class_time", {"class_id": batch} | wait)
    return tables


def test_a_prediction_without_waiting_is_checked_without_waiting() -> None:
    row = told(waited(1, 50), batch=1)["total"]
    assert (row["measured_ns"], row["predicted_ns"]) == (101, 101)
    # 101 and 150 are predicted from each other: 150 / 101 - 1 and 1 - 101 / 150.
    assert row["error_pct"] == pytest.approx((100 * 49 / 101 + 100 * 49 / 150) / 2)
    # Without waiting, both take the 100 ns of sampling, which is what is predicted.
    row = told(waited(1, 50), batch=1, no_wait=True)["total"]
    assert (row["measured_ns"], row["predicted_ns"], row["error_pct"]) == (101, 100, 0)


# Products of 256 rows take 60 us, those of 1,024 rows four times as long.
MEASURED = {256: 60_000, 1024: 240_000}


def gate_up(batch: int, ns: float) -> Tables:
    """Steps of one product of 4096 x 4096 weights; see MEASURED."""
    tables = one_rank()
    size = 4096 * 4096
    shape = {"role": "gate_up_proj", "dtype": "bf16", "k": 4096, "n": 4096}
    products = [shape | {"m": m, "ns": measured_ns} for m, measured_ns in MEASURED.items()]
    document = json.dumps({"products": products})
    insert(tables, "measured_device", {"device_name": "NVIDIA H200", "document": document})
    part_of_model(tables, "gate_up_proj", flops_per_row=2 * size, weight_bytes=2 * size)
    steps(tables, batch, {"gate_up_proj": ns})
    return tables


def test_measured_product_takes_as_long_per_row_between_measured_rows() -> None:
    tables = gate_up(256, 60_000)
    row = told(tables, batch=640)["gate_up_proj"]
    # Halfway between 256 and 1,024 rows.
    assert (row["predicted_ns"], row["how"]) == (pytest.approx(150_000), "measured product")
    # A recorded one that takes 10% longer than measured will do so with more rows too.
    slower = told(gate_up(256, 66_000), batch=640)["gate_up_proj"]
    assert slower["predicted_ns"] == pytest.approx(165_000)


def odd_steps() -> Tables:
    """30 steps of eight requests that sample for 30 ns, and one of six, padded to eight rows."""
    tables = one_rank()
    part_of_model(tables, "attention", formula="attention", kv_bytes=1)
    part_of_model(tables, "attention", formula="attention", kv_bytes=1, tp=2)
    usual = {"sample": 30, "attention": 700}
    odd = {"sample": 40, "attention": 500}
    steps(tables, 8, usual, steps=30, kv_tokens=4000, generation_pairs=4000)
    rare = {"executed_tokens": 8, "kv_tokens": 3000, "generation_pairs": 3000}
    steps(tables, 6, odd, is_frequent=False, **rare)
    return tables


@pytest.mark.parametrize("question", [{"peak": "H200"}, {"tp": 1}, {"batch": 8}])
def test_question_that_changes_nothing_returns_what_was_measured(question: Row) -> None:
    parts = told(odd_steps(), **question)
    predictions = {part: row["predicted_ns"] for part, row in parts.items()}
    assert predictions == {"sample": 30, "attention": 700, "total": 730}
    assert parts["sample"]["how"] == parts["attention"]["how"] == "as measured"
    if "peak" in question:
        assert "GPU: NVIDIA H200, as recorded" in parts["total"]["warning"]


def test_unknown_gpu_is_said() -> None:
    tables = one_rank("Abacus 9")
    part_of_model(tables, "lm_head")
    steps(tables, 8, {"lm_head": 150})
    parts = told(tables, batch=16)
    assert parts["lm_head"]["how"] == "unknown"
    assert "peaks of Abacus 9 unknown: load with --peaks" in parts["total"]["warning"]


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


def test_unknown_kv_lengths_leave_attention_unknown() -> None:
    trace = databases.trace(databases.RUN_DIRECTORY)
    attention = asked(trace)["computing", "attention"]
    assert attention["predicted_ns"] == attention["measured_ns"]
    without, with_context = total(trace, batch=32), total(trace, batch=32, context=600)
    assert "without attention" in without["warning"]
    assert "give --context" in without["warning"]
    assert with_context["how"] == "sum"
    assert with_context["predicted_ns"] > without["predicted_ns"]


def test_what_no_step_can_have_is_refused_and_the_largest_question_has_an_answer() -> None:
    for option, value, reason in (
        ("--batch", "0", "batch is 0; give a number from 1 to 65,536"),
        ("--context", str(2**64), f"context is {2**64}; give a number from 1 to 10,000,000"),
        ("--peak", "", "peak is empty, which every name matches; give a part of a name, or leave"),
    ):
        said = refusal("run", "whatif", loaded(DENSE).path, option, value)
        assert said.startswith(f"traceql: whatif: {reason}")
    # Its pairs of tokens in prefill are 65,536 x 5e13 = 3.3e18, of 9.2e18 that BIGINT holds.
    largest = total(loaded(DENSE), phase="prefill", batch=65_536, context=10_000_000)
    assert "does not fit" in largest["warning"]


def test_curve_joins_measured_sizes_and_goes_on_as_the_largest() -> None:
    tables = database()
    tables.con.execute("UPDATE trace SET device_name = 'NVIDIA H200'")
    known = {"op": "all_reduce", "ranks": 2}
    collectives = [
        known | {"bytes": 1000, "ns": 12_000, "algorithm": "nccl"},
        known | {"bytes": 1000, "ns": 4000, "algorithm": "custom"},
        known | {"bytes": 3000, "ns": 5000, "algorithm": "custom"},
    ]
    document = json.dumps({"collectives": collectives})
    file = {"device_name": "NVIDIA H200", "path": "peaks.json", "document": document}
    insert(tables, "peak_file", file)
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
