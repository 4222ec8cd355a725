"""Table cost against the hardware counters that Nsight Compute read of the same step.

tests/data/ncu: Qwen3-8B cut to 4 layers, eager, on one H200. Each folder has a trace and, as
ncu.csv, the counters of all kernels of one of its steps, read with the options
`--clock-control none --cache-control all --nvtx --csv --page raw --print-units base`.
"""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import traceql

pytestmark = pytest.mark.slow
DATA = Path(__file__).parent / "data" / "ncu"
STEPS = {"decode": 3, "prefill": 0}
LAYER_PRODUCTS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
READ = "dram__bytes_read.sum"
FLOPS = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"


class Step(NamedTuple):
    """What each role of a step had to do, and what it did."""

    name: str
    cost: dict[str, dict[str, Any]]
    counted: dict[str, dict[str, float]]


@pytest.fixture(scope="module", params=STEPS)
def step(request: pytest.FixtureRequest) -> Step:
    name: str = request.param
    where = f"WHERE step_id = {STEPS[name]}"
    with traceql.open(DATA / name) as trace:
        kernels = trace.sql(f"FROM kernel {where} AND kind = 'kernel' ORDER BY ts").rows()
        costs = trace.sql(f"""
            SELECT role, SUM(flops) AS flops, SUM(hbm_bytes) AS hbm,
                SUM(activation_bytes) AS activations
            FROM cost {where} GROUP BY role""").rows()
    with (DATA / name / "ncu.csv").open(newline="") as lines:
        launches = [row for row in csv.DictReader(lines) if row["ID"]]
    counted: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for kernel, launch in zip(kernels, launches, strict=True):
        assert launch["Grid Size"] == str(tuple(kernel["grid"]))
        assert launch["Block Size"] == str(tuple(kernel["block"]))
        for metric in (READ, FLOPS):
            counted[kernel["role"]][metric] += float(launch[metric].replace(",", ""))
    return Step(name, {row["role"]: row for row in costs}, counted)


@pytest.mark.parametrize("role", [*LAYER_PRODUCTS, "lm_head"])
def test_a_product_reads_its_weights(step: Step, role: str) -> None:
    ratio = step.counted[role][READ] / step.cost[role]["hbm"]
    if step.name == "decode" or role == "lm_head":
        assert 1 <= ratio < 1.01
    else:
        # The input comes from memory too, because the caches were flushed. A product whose tiles
        # do not all run at once (qkv_proj, gate_up_proj) reads a part of its weights twice.
        assert 1.2 < ratio < 1.7


@pytest.mark.parametrize("role", [*LAYER_PRODUCTS, "lm_head"])
def test_a_product_computes_whole_tiles_of_eight_rows(step: Step, role: str) -> None:
    rows = {"decode": 4, "prefill": 2 if role == "lm_head" else 1024}[step.name]
    executed = step.cost[role]["flops"] * max(rows, 8) / rows
    assert step.counted[role][FLOPS] == pytest.approx(executed, rel=1e-3)


def test_attention_computes_whole_tiles(step: Step) -> None:
    # decode: a tile of 64 rows has 4 query heads of one KV head; 515 keys are 5 tiles of 128.
    # prefill: of 512 x 512 pairs, the 10 tiles of 128 x 128 at and below the diagonal.
    waste = {"decode": 64 / 4 * 640 / 515, "prefill": 10 * 128**2 / (512 * 513 / 2)}[step.name]
    executed = step.cost["attention"]["flops"] * waste
    assert step.counted["attention"][FLOPS] == pytest.approx(executed, rel=1e-3)


def test_attention_reads_keys_values_and_queries(step: Step) -> None:
    cost = step.cost["attention"]
    wanted = cost["hbm"] + cost["activations"] / 2
    assert step.counted["attention"][READ] == pytest.approx(wanted, rel=0.04)


def test_a_decode_step_reads_what_it_must(step: Step) -> None:
    if step.name == "decode":
        read = sum(role[READ] for role in step.counted.values())
        must = sum(role["hbm"] or 0 for role in step.cost.values())
        assert 1 <= read / must < 1.005
