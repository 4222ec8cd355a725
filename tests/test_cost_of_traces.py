"""Table cost of real traces, against figures that were computed apart from it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import databases
import pytest
from published_models import BUILT_IN
from shared_files import shared_file
from workload_runs import DENSE, EAGER, EXPERTS, FOUR_RANKS, Workload, loaded

import traceql

pytestmark = pytest.mark.slow
_PREFILL, _DECODE = 0, 3  # steps
# In the reference figures, activations come from memory, not from the cache.
_EFFORT = """
    WITH called AS (
        SELECT
            cost.*,
            weight_bytes + kv_bytes + activation_bytes AS moved_bytes,
            peak.tflops * 1e3 AS flops_per_ns,
            peak.hbm_gbps AS bytes_per_ns
        FROM cost
        INNER JOIN trace USING (rank)
        INNER JOIN peak
            ON trace.device_name = peak.device_name
            AND peak.dtype = COALESCE(cost.dtype, 'bf16')
            AND peak.kind = 'data sheet'
        WHERE cost.rank = 0
    )
    SELECT
        role,
        SUM(dur_ns) / 1e3 AS us,
        SUM(flops) / SUM(dur_ns) / 1e3 AS tflops,
        SUM(moved_bytes) / SUM(dur_ns) AS gbps,
        GREATEST(SUM(flops) / ANY_VALUE(flops_per_ns), SUM(moved_bytes) / ANY_VALUE(bytes_per_ns))
            AS floor_ns,
        SUM(flops) / ANY_VALUE(flops_per_ns) AS flops_ns,
        SUM(weight_bytes + kv_bytes) / ANY_VALUE(bytes_per_ns) AS read_ns,
        100 * floor_ns / SUM(dur_ns) AS percent
    FROM called
    WHERE step_id = $step
    GROUP BY role
"""


def roles(run: Workload, step: int) -> dict[str, dict[str, float]]:
    return {row["role"]: row for row in loaded(run).sql(_EFFORT, {"step": step}).rows()}


def total(run: Workload, step: int, column: str) -> float:
    return sum(row[column] or 0 for row in roles(run, step).values())


def rows(trace: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


@pytest.mark.parametrize(
    ("step", "role", "us", "percent", "rate"),
    [
        (_PREFILL, "qkv_proj", 2382.2, 79, 778.9),
        (_PREFILL, "gate_up_proj", 9304.1, 81, 797.7),
        (_PREFILL, "down_proj", 4446.5, 84, 834.6),
        (_PREFILL, "o_proj", 1563.5, 80, 791.2),
        (_PREFILL, "attention", 851.1, 18, 182),
        (_DECODE, "qkv_proj", 576.5, 66, 3148),
        (_DECODE, "gate_up_proj", 1783.6, 85, 4068),
        (_DECODE, "down_proj", 1077.5, 70, 3368),
        (_DECODE, "o_proj", 461.5, 55, 2623),
        (_DECODE, "lm_head", 300.2, 86, 4150),
        (_DECODE, "attention", 513.0, 12, 597),
    ],
)
def test_roles_of_8b(step: int, role: str, us: float, percent: int, rate: float) -> None:
    """The rate is in TFLOP/s in prefill and in GB/s in decode."""
    found = roles(DENSE, step)[role]
    assert found["us"] == pytest.approx(us, rel=0.001)
    assert found["tflops" if step == _PREFILL else "gbps"] == pytest.approx(rate, rel=0.002)
    assert found["percent"] == pytest.approx(percent, abs=0.51)


def test_floors_and_utilization_of_8b() -> None:
    assert total(DENSE, _PREFILL, "floor_ns") == pytest.approx(16_254_000, rel=0.01)
    assert total(DENSE, _DECODE, "floor_ns") == pytest.approx(3_227_000, rel=0.01)
    steps = "SELECT step_id, gpu_dur FROM step WHERE rank = 0"
    gpu_ns = dict(loaded(DENSE).select(steps).fetchall())
    mfu = 100 * total(DENSE, _PREFILL, "flops_ns") / gpu_ns[_PREFILL]
    mbu = 100 * total(DENSE, _DECODE, "read_ns") / gpu_ns[_DECODE]
    assert (round(mfu), round(mbu)) == (43, 59)


@pytest.mark.parametrize(
    ("run", "percents"),
    [
        (FOUR_RANKS, {"gate_up_proj": 78, "down_proj": 76, "o_proj": 54, "qkv_proj": 49}),
        (EXPERTS, {"experts_gate_up": 48, "experts_down": 40, "router": 2, "o_proj": 21}),
    ],
    ids=lambda of: of.model if isinstance(of, Workload) else "",
)
def test_decode_on_four_ranks(run: Workload, percents: dict[str, int]) -> None:
    found = roles(run, _DECODE)
    rounded = {role: found[role]["percent"] for role in percents}
    assert rounded == pytest.approx(percents, abs=0.75)


def test_kinds_of_bytes_of_a_decode_step() -> None:
    """4 tokens; 515 or 514 keys of each request; 36 layers; 8 of 32 heads have keys; 2 bytes."""
    found = rows(
        loaded(DENSE),
        """
        SELECT role, SUM(flops), SUM(weight_bytes), SUM(kv_bytes), SUM(activation_bytes)
        FROM cost
        WHERE step_id = 3 AND role IN ('qkv_proj', 'attention', 'kv_write', 'embed', 'lm_head')
        GROUP BY role
        """,
    )
    layers, keys = 36, 2 * 515 + 2 * 514
    assert {row[0]: row[1:] for row in found} == {
        "qkv_proj": (layers * 2 * 4 * 4096 * 6144, layers * 4096 * 6144 * 2, 0,
                     layers * 4 * (4096 + 6144) * 2),
        "attention": (layers * 4 * 4096 * keys, 0, layers * keys * 2 * 1024 * 2,
                      layers * 4 * 2 * 4096 * 2),
        "kv_write": (0, 0, layers * 4 * 2 * 1024 * 2, layers * 4 * 2 * 1024 * 2),
        "lm_head": (2 * 4 * 4096 * 151_936, 4096 * 151_936 * 2, 0, 4 * (4096 + 151_936) * 2),
    }  # fmt: skip


_CONFIGURED = {
    "qwen3-0.6b-tp1-eager": "qwen3-0.6b",
    "qwen3-8b-pp2-graph": "qwen3-8b",
    databases.SERVING: "qwen3-8b",
}


def configured(name: str) -> traceql.Run:
    """A run with the configuration of its model; skips the test where its files are not there.

    Of the large one, the first rank, which has steps of every size.
    """
    paths = databases.files(name)[: 1 if name == databases.SERVING else None]
    config = BUILT_IN / f"{_CONFIGURED[name]}.json"
    return traceql.Run(
        shared_file(
            f"{name}-configured.duckdb",
            lambda file: traceql.load(paths, file, model_config=config),
        )
    )


def test_padding_is_executed_but_not_useful() -> None:
    """CUDA graphs exist for 1, 2, 4, 8 and 16 tokens; logits are made of what is useful."""
    query = """
        SELECT DISTINCT
            step_tokens.tokens,
            step_tokens.executed_tokens,
            cost.flops = 2 * step_tokens.tokens * 4096 * 3072
            AND cost.executed_flops = 2 * step_tokens.executed_tokens * 4096 * 3072
        FROM cost
        INNER JOIN step_tokens USING (rank, step_id)
        WHERE cost.role = 'qkv_proj' AND step_tokens.tokens <= 16
        ORDER BY ALL
    """
    found = rows(configured(databases.SERVING), query)
    padded = {tokens: min(n for n in (1, 2, 4, 8, 16) if n >= tokens) for tokens, _, _ in found}
    assert len(padded) > 8
    assert found == [(tokens, executed, True) for tokens, executed in padded.items()]


def test_shapes_that_differ_from_the_configuration_win(tmp_path: Path) -> None:
    """A configuration of another model: what its shapes do not tell is unknown, and it is said."""
    paths = databases.files("qwen3-0.6b-tp1-eager")
    wrong = BUILT_IN / "qwen3-1.7b.json"
    with traceql.open(traceql.load(paths, tmp_path / "r.duckdb", model_config=wrong).database) as r:
        right = configured("qwen3-0.6b-tp1-eager")
        products = "SELECT * FROM cost WHERE source = 'shapes' AND formula = 'product' ORDER BY ALL"
        assert rows(r, products) == rows(right, products)
        check = "SELECT ok, value < total FROM ledger WHERE check_name = 'shapes of the model'"
        assert rows(r, check) == [(False, True)]
        assert rows(right, check) == [(True, False)]
        others = "SELECT COUNT(*) FROM cost WHERE source = 'configuration'"
        assert rows(r, others) == [(0,)]


# What each rank sends, by the buffers that the arguments state: nccl-tests, PERFORMANCE.md.
_SENT: dict[str, Callable[..., float]] = {
    "allreduce": lambda sent, _, ranks: sent * 2 * (ranks - 1) / ranks,
    "_allgather_base": lambda _, received, ranks: received * (ranks - 1) / ranks,
    "allgather": lambda _, received, ranks: received * (ranks - 1) / ranks,
    "broadcast": lambda sent, *_: sent,
    "send": lambda sent, *_: sent,
    "recv": lambda _, received, __: received,
}
_TYPES = {"BFloat16": 2, "Float": 4, "Int": 4, "Long": 8, "Byte": 1}


def sent_bytes(args: dict[str, Any]) -> float:
    width = _TYPES[args["dtype"]]
    sent, received = args["In msg nelems"] * width, args["Out msg nelems"] * width
    return float(_SENT[args["Collective name"]](sent, received, args["Group size"]))


@pytest.mark.parametrize(
    "name",
    [
        "qwen3-32b-tp4-graph-nccl",
        "qwen3-8b-tp2-eager-stack-4layers",
        "qwen3-8b-pp2-graph",
        "qwen3-30b-a3b-tp4-ep-graph",
    ],
)
def test_wire_bytes_are_those_of_the_arguments(name: str) -> None:
    trace = databases.trace(name)
    found = rows(
        trace,
        """
        SELECT
            cost.rank, cost.wire_bytes,
            LIST(kernel.ts ORDER BY kernel.ts) FILTER (kernel.category = 'collective') AS starts
        FROM cost
        INNER JOIN kernel
            ON cost.rank = kernel.rank
            AND cost.step_id = kernel.step_id
            AND cost.role = kernel.role
            AND cost.layer IS NOT DISTINCT FROM kernel.layer
        GROUP BY cost.rank, cost.step_id, cost.layer, cost.role, cost.wire_bytes
        HAVING BOOL_OR(kernel.category = 'collective')
        """,
    )
    said = {
        (file.rank, event.ts + file.offset_ns): sent_bytes(event.args)
        for file in databases.rank_files(name)
        for event in databases.gpu_events(file.path)
        if "nccl" in event.name and event.args and "Collective name" in event.args
    }
    compared = 0
    for rank, wire_bytes, starts in found:
        sizes = [said.get((rank, start)) for start in starts]
        if None not in sizes:
            compared += 1
            assert wire_bytes == round(sum(size for size in sizes if size is not None))
    assert compared


_WORK = """
    SELECT role, layer, step_id, dtype, formula, flops, executed_flops, weight_bytes, kv_bytes,
        activation_bytes, hbm_bytes
    FROM cost
    WHERE missing IS NULL AND role NOT IN ('moe_align')
    ORDER BY ALL
"""


def test_recorded_shapes_say_the_same_as_the_configuration() -> None:
    """Without the configuration, all roles of an eager trace have the same cost from shapes."""
    shapes = loaded(replace(EAGER, configured=False))
    assert rows(shapes, _WORK) == rows(loaded(EAGER), _WORK)
    told = "SELECT DISTINCT source FROM cost WHERE missing IS NULL"
    assert rows(shapes, told) == [("shapes",)]
    unknown = "SELECT DISTINCT role, missing FROM cost WHERE missing IS NOT NULL ORDER BY ALL"
    no_formula = "a formula for this role"
    assert rows(shapes, unknown) == [("input_prep", no_formula), ("sample", no_formula)]


RECORDED = databases.ROOT.parent / "shared" / "models" / "eager"
MODELS = ("deepseekv2", "gemma3", "mixtral", "qwen3_fp8", "qwen3_fp8block", "qwen3moe")


@pytest.mark.parametrize("model", MODELS)
def test_products_have_the_configured_shapes(model: str, tmp_path: Path) -> None:
    """Eager recordings, with shapes."""
    folder = RECORDED / model
    if not folder.is_dir():
        pytest.skip(f"no recording of {model}")
    found = rows(
        traceql.Run(traceql.load([folder], tmp_path / "run.duckdb").database),
        """
        SELECT
            cost.role,
            BOOL_AND(cost.source = 'shapes'),
            BOOL_AND(
                cost.dtype = model_part.dtype
                -- Up to the scales of whole tensors, of which the configuration tells nothing.
                AND cost.weight_bytes - model_part.weight_bytes BETWEEN 0 AND 16
                AND cost.flops = model_part.flops_per_row
                    * IF(cost.role = 'lm_head', step_tokens.logit_rows, step_tokens.tokens)
            )
        FROM cost
        INNER JOIN step_tokens USING (step_id)
        INNER JOIN model_part
            ON model_part.tp = 1
            AND cost.role = model_part.role
            AND cost.layer IS NOT DISTINCT FROM model_part.layer
        WHERE cost.role IN (
            'qkv_proj', 'o_proj', 'gate_up_proj', 'down_proj', 'router', 'lm_head'
        )
        GROUP BY cost.role
        """,
    )
    assert len(found) >= 4
    assert {row[1:] for row in found} == {(True, True)}


def test_each_stage_has_the_work_of_its_layers() -> None:
    """Two pipeline stages: together, each token passes all weights but the embedding, once."""
    query = """
        SELECT
            cost.rank,
            COUNT(DISTINCT cost.layer),
            BOOL_OR(cost.role = 'lm_head'),
            SUM(cost.flops) FILTER (cost.layer IS NOT NULL AND cost.formula = 'product')
            / (2 * ANY_VALUE(step_tokens.tokens))
        FROM cost
        INNER JOIN step_tokens USING (rank, step_id)
        WHERE step_tokens.context_tokens = 0 AND step_tokens.tokens > 0
        GROUP BY cost.rank, cost.step_id
    """
    weights = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 12_288  # of a layer
    assert set(rows(configured("qwen3-8b-pp2-graph"), query)) == {
        (0, 18, False, 18 * weights),
        (1, 18, True, 18 * weights),
    }
