"""Layers, roles and steps of vLLM-Ascend's decode: eager and replayed, dense and with experts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ascend_like
import pytest
from ascend_like import EAGER, Event, call, operation, operator, task, values

import traceql

STEPS, LAYERS, GRAPH = 3, 4, 5
Kernel = tuple[str | tuple[str, str], str]  # its name, with the kind of task; and its role
_NORM = ("aclnnAddRmsNorm_AddRmsNorm_AddRmsNorm", "MIX_AIV")
_PRODUCT = ("aclnnMatmul_MatMulV2Common_MatMulV2", "AI_CORE")
_SMALL_NORM = ("aclnnRmsNorm_RmsNorm_RmsNorm", "AI_VECTOR_CORE")
_SCORE = "FusedInferAttentionScore"
_GROUPED = ("aclnnGroupedMatmulV4_GroupedMatmul_GroupedMatmul", "MIX_AIC")
_SWIGLU = ("aclnnSwiGlu_SwiGlu_SwiGlu", "AI_VECTOR_CORE")
_ALL_REDUCE = "hcom_allReduce_"
# Names of kernels, and the roles that vLLM-Ascend's source gives them.
ATTENTION: tuple[Kernel, ...] = (
    (_NORM, "input_norm"),
    (_PRODUCT, "qkv_proj"),
    (_SMALL_NORM, "qk_norm"),
    (_SMALL_NORM, "qk_norm"),
    (("_triton_rope", "AI_VECTOR_CORE"), "rope"),
    (("ReshapeAndCacheNdKernel", "MIX_AIV"), "kv_write"),
    ((f"aclnn{_SCORE}V3_{_SCORE}_{_SCORE}", "MIX_AIC"), "attention"),
    (_PRODUCT, "o_proj"),
    (_ALL_REDUCE, "attn_allreduce"),
    (_NORM, "post_attn_norm"),
)
DENSE: tuple[Kernel, ...] = (
    (_PRODUCT, "gate_up_proj"),
    (_SWIGLU, "act"),
    (_PRODUCT, "down_proj"),
    (_ALL_REDUCE, "mlp_allreduce"),
)
EXPERTS: tuple[Kernel, ...] = (
    (_PRODUCT, "router"),
    (("MoeGatingTopKSoftmax", "MIX_AIV"), "topk"),
    (("MoeInitRoutingV2", "MIX_AIV"), "moe_align"),
    (_GROUPED, "experts_gate_up"),
    (_SWIGLU, "act"),
    (_GROUPED, "experts_down"),
    (("MoeTokenUnpermute", "AI_VECTOR_CORE"), "moe_sum"),
    (_ALL_REDUCE, "mlp_allreduce"),
)
# vLLM-Ascend with one kernel for the norm of q and k and rope, and with expert parallelism.
_FUSED = (("split_qkv_rmsnorm_rope_kernel", "AI_VECTOR_CORE"), "qk_norm")
FUSED: tuple[Kernel, ...] = (*ATTENTION[:2], _FUSED, *ATTENTION[5:])
_DISPATCH = (("MoeDistributeDispatchV2", "MIX_AIV"), "dispatch")
_COMBINE = (("MoeDistributeCombineV2", "MIX_AIV"), "combine")
SPREAD: tuple[Kernel, ...] = (*EXPERTS[:2], _DISPATCH, *EXPERTS[3:6], _COMBINE)
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
    found: list[Event] = []
    host, connection, model = 0, 1, GRAPH if graph else EAGER
    for _ in range(STEPS):
        begun, device = host, host + 20_000
        if graph:
            name = "AscendCL@aclmdlRIExecuteAsync"
            found.append(call(name, ts=host + 5, dur=9, level="acl", connection=connection))
        for number, (kernel, _role) in enumerate([*BEFORE, *[*layer] * LAYERS, *AFTER], start=1):
            connection, host = connection + 1, host + 100
            at: dict[str, Any] = {"ts": device, "connection": 0 if graph else connection}
            if not graph:
                found.append(call(ts=host, dur=90, connection=connection))
            if isinstance(kernel, str):
                called = f"{kernel}_123_{number}_1"
                found.append(operation(called, dur=300, **at, **{"model id": model}))
                kernel, at = ("Notify Wait", "Notify Wait"), at | {"stream": 9}
            name, kind = kernel
            found.append(task(name, dur=200, kind=kind, model=model, number=number, **at))
            device += 600
        name = "execute_context_0(0)_generation_4(4)"
        found.append(operator(name, ts=begun, dur=device - begun))
        host = device + 5_000
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "graph", "family"),
    [
        pytest.param(ATTENTION + DENSE, True, "qwen3", id="dense, replayed"),
        pytest.param(ATTENTION + DENSE, False, "qwen3", id="dense, eager"),
        pytest.param(ATTENTION + EXPERTS, True, "qwen3_moe", id="experts, replayed"),
        pytest.param(FUSED + DENSE, True, "qwen3", id="fused norm and rope"),
        pytest.param(ATTENTION + SPREAD, True, "qwen3_moe", id="EP"),
    ],
)
def test_kernels_have_the_layers_and_roles_of_the_model(
    layer: Sequence[Kernel], graph: bool, family: str, tmp_path: Path
) -> None:
    ascend_like.write(tmp_path / "rank0_ascend_pt", *decode(layer, graph=graph))
    traceql.load(tmp_path, tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        kernels = values(trace, "SELECT step_id, layer, role FROM kernel ORDER BY ts")
        places = values(trace, "SELECT DISTINCT in_graph, device, launch_id IS NULL FROM kernel")
        models = values(trace, "SELECT family, layers FROM rank_model")
        failed = values(trace, "SELECT check_name FROM ledger WHERE ok IS FALSE")
        steps = values(trace, "SELECT phase, generation_requests FROM step ORDER BY step_id")
    layers = [(number, layer) for number in range(LAYERS)]
    assert kernels == [
        (step, number, role)
        for step in range(STEPS)
        for number, kernels_of_layer in ((None, BEFORE), *layers, (None, AFTER))
        for _, role in kernels_of_layer
    ]
    assert (places, models, failed) == ([(graph, 3, False)], [(family, LAYERS)], [])
    assert steps == [("decode", 4)] * STEPS


@pytest.mark.slow
def test_replays_have_no_call_if_there_are_more_calls(tmp_path: Path) -> None:
    late = call("AscendCL@aclmdlRIExecuteAsync", ts=10**8, level="acl", connection=9999)
    ascend_like.write(tmp_path / "rank0_ascend_pt", *decode(ATTENTION + DENSE, graph=True), late)
    traceql.load(tmp_path, tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        found = values(trace, "SELECT COUNT(launch_id), BOOL_AND(in_graph) FROM kernel")
    assert found == [(0, True)]
