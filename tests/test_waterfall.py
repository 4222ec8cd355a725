"""The floor of a step and its waterfall, worked out by hand, and on real runs."""

from collections import Counter
from pathlib import Path
from typing import Any

import databases
import pytest
from databases import cases
from derived import Tables, answer, insert, rows

import traceql

MODELS = Path(__file__).resolve().parents[1] / "capture" / "models"
# Peaks that make one FLOP 1 ps, and one byte 1 ns in memory and on a link.
PEAK = {
    "device_name": "GPU", "dtype": "bf16", "kind": "data sheet", "tflops": 1, "hbm_gbps": 1,
    "link_gbps": 1, "kernel_ns": 10,
}  # fmt: skip
STEP = {"rank": 0, "step_id": 0}
MODELLED = {"layer": 0, "dtype": "bf16", "flops": 0, "hbm_bytes": 0, "kernels": 1}


def spent(part: str, ns: int, role: str | None = None, **more: Any) -> dict[str, Any]:
    """A row of step_time."""
    layer = None if role is None else 0
    return STEP | {"device": 0, "part": part, "role": role, "layer": layer, "ns": ns} | more


def cost(role: str, **known: Any) -> dict[str, Any]:
    return STEP | MODELLED | {"role": role} | known


def filled(**given: list[dict[str, Any]]) -> Tables:
    """A database with these rows alone in the tables that a waterfall is made from."""
    tables = Tables()
    rank = {"dialect": "pytorch", "device_name": "GPU"}
    insert(tables, "trace", rank | {"rank": 0}, rank | {"rank": 1})
    insert(tables, "peak", PEAK)
    for table, listed in given.items():
        insert(tables, table, *listed)
    return tables


def bars(
    tables: Tables, kind: str = "data sheet", **where: Any
) -> dict[tuple[str, str | None], int]:
    """The waterfall by bar, and role or cause."""
    chosen = " AND ".join(f"{name} = {value!r}" for name, value in where.items()) or "TRUE"
    found = rows(
        tables,
        f"""
        SELECT bar, COALESCE(role, cause), ns
        FROM waterfall
        WHERE kind = {kind!r} AND {chosen}
        ORDER BY ALL
        """,
    )
    return {(bar, what): ns for bar, what, ns in found}


def one_step() -> Tables:
    return filled(
        step=[
            {"rank": 0, "step_id": 0, "number": 0, "gpu_dur": 280, "phase": "decode",
             "context_tokens": 0, "generation_tokens": 4}
        ],
        step_time=[
            spent("computing", 100, "qkv_proj"),
            spent("computing", 30, "input_norm"),
            spent("computing", 40, "sample"),
            spent("exposed_transfer", 50, "mlp_allreduce"),
            spent("exposed_wait", 7, "mlp_allreduce"),
            spent("exposed_unmatched", 25, "logits_gather"),
            spent("exposed_transfer", 9, "embed"),
            spent("exposed_copy", 5, "input_prep"),
            spent("idle", 11, cause="host"),
            spent("other_step", 3),
        ],
        cost=[
            # 20 ns of FLOPs, 60 ns of bytes.
            cost("qkv_proj", flops=20_000, hbm_bytes=60, executed_hbm_bytes=65),
            cost("input_norm", kernels=2),
            cost("o_proj", hbm_bytes=8),  # hidden behind another kernel
            cost("sample", flops=None, hbm_bytes=None, missing="a formula for this role"),
            cost("mlp_allreduce", wire_bytes=30),
            cost("logits_gather", wire_bytes=10),
            cost("attn_allreduce", wire_bytes=99),  # hidden
            cost("embed", missing="size of the buffer"),
        ],
    )  # fmt: skip


def test_bars_divide_the_time_of_each_role() -> None:
    found = bars(one_step())
    assert found == {
        ("floor", "qkv_proj"): 60,
        ("padding", "qkv_proj"): 5,
        ("below_roofline", "qkv_proj"): 35,
        ("small_kernels", "input_norm"): 20,
        ("below_roofline", "input_norm"): 10,
        ("floor", "o_proj"): 8,
        ("below_roofline", "o_proj"): -8,
        ("not_modelled", "sample"): 40,
        ("comm_floor", "mlp_allreduce"): 30,
        ("comm_above_floor", "mlp_allreduce"): 20,
        ("waiting", "mlp_allreduce"): 7,
        ("comm_floor", "logits_gather"): 10,
        ("comm_unmatched", "logits_gather"): 15,
        ("not_modelled", "embed"): 9,
        ("copies", "input_prep"): 5,
        ("idle", "host"): 11,
        ("other_step", None): 3,
    }
    assert sum(found.values()) == 280


@pytest.mark.slow
def test_measured_ceilings_have_a_waterfall_of_their_own() -> None:
    """Memory is half as fast as on the data sheet, and the all-reduce takes 45 ns, not 30."""
    tables = filled(
        step_time=[
            spent("computing", 150, "qkv_proj"),
            spent("exposed_transfer", 50, "mlp_allreduce"),
            spent("exposed_transfer", 50, "logits_gather"),
        ],
        cost=[
            cost("qkv_proj", flops=20_000, hbm_bytes=60),
            cost("mlp_allreduce", wire_bytes=30),
            cost("logits_gather", wire_bytes=10),
        ],
        peak=[PEAK | {"kind": "measured", "hbm_gbps": 0.5, "link_gbps": 0.5}],
        kernel=[STEP | {"id": 1, "layer": 0, "role": "mlp_allreduce"}],
        collective=[{"kernel_id": 1, "rank": 0, "op": "all_reduce", "group_size": 2, "bytes": 30}],
        transfer_curve=[
            {"device_name": "GPU", "op": "all_reduce", "ranks": 2, "from_bytes": 20, "ns": 35,
             "ns_per_byte": 1, "source": "measured"}
        ],
    )  # fmt: skip
    assert bars(tables, "measured") == {
        ("floor", "qkv_proj"): 120,
        ("below_roofline", "qkv_proj"): 30,
        ("comm_floor", "mlp_allreduce"): 45,
        ("comm_above_floor", "mlp_allreduce"): 5,
        ("comm_floor", "logits_gather"): 20,
        ("comm_above_floor", "logits_gather"): 30,
    }
    assert bars(tables)["floor", "qkv_proj"] == 60
    assert bars(tables)["comm_floor", "mlp_allreduce"] == 30


@pytest.mark.slow
def test_answers_are_per_step_and_token_and_name_what_is_missing() -> None:
    tables = one_step()
    found = answer(tables, "step.waterfall", by="bar")
    columns = [(bar, mean, token, total) for _, bar, _, mean, _, token, total, *_ in found]
    assert columns == [
        (bar, ns, ns / 4, ns)
        for bar, ns in (
            ("floor", 68), ("padding", 5), ("small_kernels", 20), ("below_roofline", 37),
            ("not_modelled", 49), ("comm_floor", 40), ("comm_above_floor", 20),
            ("comm_unmatched", 15), ("waiting", 7), ("copies", 5), ("idle", 11), ("other_step", 3),
        )
    ]  # fmt: skip
    parts = {(bar, part) for _, bar, part, *_ in answer(tables, "step.waterfall")}
    assert {("floor", "floor"), ("below_roofline", "o_proj"), ("idle", "host")} < parts
    missing = "size of the buffer: embed"  # sampling is no part of the model
    share = pytest.approx(100 * 108 / 280)
    numbers = (280, 108, 68, None, 40, share, 280 - 108 - 49, 49)
    (of_step,) = answer(tables, "step.floor", by="step")
    assert of_step == ("decode", 0, 0, 0, 1, *numbers, True, missing)
    (of_phase,) = answer(tables, "step.floor")
    assert of_phase == ("decode", None, None, None, 1, *numbers, True, missing)


@pytest.mark.slow
def test_without_a_peak_nothing_is_modelled() -> None:
    tables = filled(
        step=[{"rank": 0, "step_id": 0, "number": 0, "gpu_dur": 100, "phase": "decode"}],
        step_time=[spent("computing", 60, "qkv_proj"), spent("exposed_transfer", 40, "embed")],
        cost=[cost("qkv_proj", hbm_bytes=60), cost("embed", wire_bytes=10)],
    )
    tables.con.execute("DELETE FROM peak")
    assert bars(tables) == {("not_modelled", "qkv_proj"): 60, ("not_modelled", "embed"): 40}
    ((*_, missing),) = answer(tables, "step.floor")
    assert missing == "peak of the memory: qkv_proj; peak of the links: embed"


def test_experts_beyond_the_mean_of_the_ranks_are_imbalance() -> None:
    """Of rank 0 with 20 ns too many, one half of which is in experts whose work is known."""
    experts = {"experts_gate_up": (50, 30), "experts_down": (50, 30)}
    both = [{"rank": rank, "step_id": rank} for rank in (0, 1)]
    tables = filled(
        step_time=[
            spent("computing", ns, role, **both[rank])
            for role, ranks in experts.items()
            for rank, ns in enumerate(ranks)
        ],
        cost=[cost("experts_down", hbm_bytes=46)],
        aligned_step=[{"iteration": 3, **one} for one in both],
        kernel=[{"id": one["rank"], "role": "mlp_allreduce", **one} for one in both],
        collective=[
            {"kernel_id": one["rank"], "rank": one["rank"], "communicator_id": 7} for one in both
        ],
    )
    assert bars(tables, rank=0) == {
        ("not_modelled", "experts_gate_up"): 40,
        ("expert_imbalance", "experts_gate_up"): 10,
        ("floor", "experts_down"): 46,
        ("expert_imbalance", "experts_down"): 4,  # no more than is left above the floor
    }
    assert bars(tables, rank=1) == {
        ("not_modelled", "experts_gate_up"): 30,
        ("not_modelled", "experts_down"): 30,
    }


# --- on real runs --------------------------------------------------------------------------------


def adds_up(trace: traceql.Trace) -> None:
    expected = Counter[int]()
    for row in trace.sql("SELECT step_id, gpu_dur FROM step WHERE gpu_dur > 0"):
        expected[row["step_id"]] = row["gpu_dur"]
    found = {"data sheet": Counter[int]()}
    for row in trace.sql("FROM waterfall"):
        assert row["ns"] > 0 or row["bar"] == "below_roofline"
        found.setdefault(row["kind"], Counter())[row["step_id"]] += row["ns"]
    assert all(of_kind == expected for of_kind in found.values())


@pytest.mark.parametrize("run", cases())
def test_waterfall_of_a_real_run_adds_up(run: str) -> None:
    adds_up(databases.trace(run))


@pytest.mark.slow
def test_measured_operations_explain_the_transfers_of_a_run() -> None:
    """Of a data sheet, the links need a tenth of that time: small messages cost latency."""
    trace = databases.trace(databases.BATCH16)
    adds_up(trace)
    shares = trace.select("""
        SELECT bound, SUM(floor_ns) / SUM(work_ns) AS share
        FROM role_time INNER JOIN step USING (step_id)
        WHERE kind = 'measured' AND floor_ns > 0
        GROUP BY phase, role, bound
    """).rows()
    assert {row["bound"] for row in shares} >= {"compute", "memory"}
    assert not [row for row in shares if row["share"] > 1]
    for kind, least, most in (("data sheet", 0.01, 0.2), ("measured", 0.9, 1)):
        bar = {
            row["bar"]: row["mean_ns"]
            for row in trace.run("step.waterfall", phase="decode", kind=kind, by="bar")
        }
        exposed = bar["comm_floor"] + bar["comm_above_floor"]
        assert least < bar["comm_floor"] / exposed < most


@pytest.mark.slow
def test_floor_is_the_time_to_read_the_weights_or_to_multiply(tmp_path: Path) -> None:
    """6.946e9 parameters of layers, and the output projection of one row a request."""
    files, config = databases.files("qwen3-8b-tp1-graph"), MODELS / "qwen3-8b.json"
    trace = traceql.Trace(
        traceql.load(files, tmp_path / "run.duckdb", model_config=config).database
    )
    layers, head = 6.946e9, 151_936 * 4096
    (decode,) = trace.run("step.floor", phase="decode")
    assert decode["floor_ns"] == pytest.approx(2 * (layers + head) / 4800, rel=0.001)
    assert decode["memory_ns"] == decode["floor_ns"]
    assert decode["missing"] == "KV lengths: attention"
    (prefill,) = trace.run("step.floor", phase="prefill")
    assert prefill["compute_ns"] == pytest.approx(2 * 1024 * layers / 989.4e3, rel=0.001)
