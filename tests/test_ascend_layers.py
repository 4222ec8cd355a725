"""Layers, roles and steps of vLLM-Ascend's decode: eager and replayed, dense and with experts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ascend_like
import pytest
from ascend_like import EAGER, Event, call, operation, operator, task

import traceql

STEPS, LAYERS, GRAPH = 3, 4, 5
Kernel = tuple[str | tuple[str, str], str]  # its name, with the kind of task; and its role
_NORM = ("aclnnAddRmsNorm_AddRmsNorm_AddRmsNorm", "MIX_AIV")
_PRODUCT = ("aclnnMatmul_MatMulV2Common_MatMulV2", "AI_CORE")
_SMALL_NORM = ("aclnnRmsNorm_RmsNorm_RmsNorm", "AI_VECTOR_CORE")
_ALL_REDUCE = "hcom_allReduce_"
# Names of kernels, and the roles that vLLM-Ascend's source gives them.
ATTENTION: tuple[Kernel, ...] = (
    (_NORM, "input_norm"),
    (_PRODUCT, "qkv_proj"),
    (_SMALL_NORM, "qk_norm"),
    (_SMALL_NORM, "qk_norm"),
    (("_triton_rope", "AI_VECTOR_CORE"), "rope"),
    (("ReshapeAndCacheNdKernel", "MIX_AIV"), "kv_write"),
    (
        (
            "aclnnFusedInferAttentionScoreV3_FusedInferAttentionScore_FusedInferAttentionScore",
            "MIX_AIC",
        ),
        "attention",
    ),
    (_PRODUCT, "o_proj"),
    (_ALL_REDUCE, "attn_allreduce"),
    (_NORM, "post_attn_norm"),
)
DENSE: tuple[Kernel, ...] = (
    (_PRODUCT, "gate_up_proj"),
    (("aclnnSwiGlu_SwiGlu_SwiGlu", "AI_VECTOR_CORE"), "act"),
    (_PRODUCT, "down_proj"),
    (_ALL_REDUCE, "mlp_allreduce"),
)
EXPERTS: tuple[Kernel, ...] = (
    (_PRODUCT, "router"),
    (("MoeGatingTopKSoftmax", "MIX_AIV"), "topk"),
    (("MoeInitRoutingV2", "MIX_AIV"), "moe_align"),
    (("aclnnGroupedMatmulV4_GroupedMatmul_GroupedMatmul", "MIX_AIC"), "experts_gate_up"),
    (("aclnnSwiGlu_SwiGlu_SwiGlu", "AI_VECTOR_CORE"), "act"),
    (("aclnnGroupedMatmulV4_GroupedMatmul_GroupedMatmul", "MIX_AIC"), "experts_down"),
    (("MoeTokenUnpermute", "AI_VECTOR_CORE"), "moe_sum"),
    (_ALL_REDUCE, "mlp_allreduce"),
)
# vLLM-Ascend with one kernel for the norm of q and k and rope, and with expert parallelism.
FUSED: tuple[Kernel, ...] = (
    *ATTENTION[:2],
    (("split_qkv_rmsnorm_rope_kernel", "AI_VECTOR_CORE"), "qk_norm"),
    *ATTENTION[5:],
)
SPREAD: tuple[Kernel, ...] = (
    *EXPERTS[:2],
    (("MoeDistributeDispatchV2", "MIX_AIV"), "dispatch"),
    *EXPERTS[3:6],
    (("MoeDistributeCombineV2", "MIX_AIV"), "combine"),
)
BEFORE: tuple[Kernel, ...] = (
    (("aclnnEmbedding_GatherV2AiCore_GatherV2", "AI_VECTOR_CORE"), "embed"),
    (_ALL_REDUCE, "embed"),
)
AFTER: tuple[Kernel, ...] = (
    (_NORM, "final_norm"),
    (("aclnnMatmul_MatMulV3Common_MatMulV3", "AI_CORE"), "lm_head"),
    (("aclnnArgMax_ArgMaxV2AiCore_ArgMaxV2", "AI_VECTOR_CORE"), "sample"),
)


def decode(layer: Sequence[Kernel], *, graph: bool) -> list[Event]:
    """Some steps of decode. In a graph the tasks have no connection, and one call starts all."""
    kernels = [*BEFORE, *[*layer] * LAYERS, *AFTER]
    found: list[Event] = []
    host, connection = 0, 1
    for _ in range(STEPS):
        begun, device = host, host + 20_000
        if graph:
            name = "AscendCL@aclmdlRIExecuteAsync"
            found.append(call(name, ts=host + 5, dur=9, level="acl", connection=connection))
        model, number = (GRAPH if graph else EAGER), 0
        for kernel, _role in kernels:
            connection, number, host = connection + 1, number + 1, host + 100
            joined = 0 if graph else connection
            if not graph:
                found.append(call(ts=host, dur=90, connection=connection))
            if isinstance(kernel, str):
                name = f"{kernel}_123_{number}_1"
                told: dict[str, Any] = {"connection": joined, "model id": model}
                found.append(operation(name, ts=device, dur=300, **told))
                wait: dict[str, Any] = {"stream": 9, "connection": joined, "model": model}
                wait["kind"] = "Notify Wait"
                found.append(task("Notify Wait", ts=device, dur=200, number=900 + number, **wait))
            else:
                name, kind = kernel
                more: dict[str, Any] = {"connection": joined, "model": model, "number": number}
                found.append(task(name, ts=device, dur=500, kind=kind, **more))
            device += 600
        name = "execute_context_0(0)_generation_4(4)"
        found.append(operator(name, ts=begun, dur=device - begun))
        host = device + 5_000
    return found


@pytest.mark.parametrize(
    ("layer", "graph", "family"),
    [
        pytest.param(ATTENTION + DENSE, True, "qwen3", id="dense, replayed"),
        pytest.param(ATTENTION + DENSE, False, "qwen3", id="dense, eager", marks=pytest.mark.slow),
        pytest.param(
            ATTENTION + EXPERTS, True, "qwen3_moe", id="experts, replayed", marks=pytest.mark.slow
        ),
        pytest.param(
            FUSED + DENSE, True, "qwen3", id="fused norm and rope", marks=pytest.mark.slow
        ),
        pytest.param(ATTENTION + SPREAD, True, "qwen3_moe", id="EP", marks=pytest.mark.slow),
    ],
)
def test_kernels_have_the_layers_and_roles_of_the_model(
    layer: Sequence[Kernel], graph: bool, family: str, tmp_path: Path
) -> None:
    ascend_like.write(tmp_path / "rank0_ascend_pt", *decode(layer, graph=graph))
    traceql.load(tmp_path, tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        kernels = trace.sql(
            "SELECT step_id, layer, role, in_graph, device FROM kernel ORDER BY ts"
        ).rows()
        models = trace.select("SELECT family, layers FROM rank_model").rows()
        failed = trace.sql("SELECT check_name FROM ledger WHERE ok IS FALSE").rows()
        steps = trace.sql("SELECT phase, generation_requests FROM step ORDER BY step_id").rows()
    of_layers = [(number, role) for number in range(LAYERS) for _, role in layer]
    one_step = [
        *((None, role) for _, role in BEFORE),
        *of_layers,
        *((None, role) for _, role in AFTER),
    ]
    expected = [(step, *kernel) for step in range(STEPS) for kernel in one_step]
    assert [(k["step_id"], k["layer"], k["role"]) for k in kernels] == expected
    assert {(k["in_graph"], k["device"]) for k in kernels} == {(graph, 3)}
    assert models == [{"family": family, "layers": LAYERS}]
    assert failed == []
    assert steps == [{"phase": "decode", "generation_requests": 4}] * STEPS


@pytest.mark.slow
def test_replays_have_no_call_if_there_are_more_calls(tmp_path: Path) -> None:
    late = call("AscendCL@aclmdlRIExecuteAsync", ts=10**8, level="acl", connection=9999)
    ascend_like.write(tmp_path / "rank0_ascend_pt", *decode(ATTENTION + DENSE, graph=True), late)
    traceql.load(tmp_path, tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        (row,) = trace.sql(
            "SELECT COUNT(launch_id) AS n, BOOL_AND(in_graph) AS g FROM kernel"
        ).rows()
    assert row == {"n": 0, "g": True}
