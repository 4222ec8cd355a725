"""Causes in kernels and hardware: what has them, what looks like them, and too little evidence."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cause_rows import require_short, row_of

import traceql

SHARED_GPU = Path(__file__).parent / "data" / "gpu-shared"  # an H200 that another program used too
Row = dict[str, Any]
US, MS, S = 1_000, 1_000_000, 1_000_000_000


def unit(number: int, ns: int, **more: Any) -> Row:
    """A unit of computing time."""
    return {
        "unit": number, "part": "computing", "rank": 0, "device": 0, "step_id": 1, "number": 1,
        "ns": ns, "is_waiting": False, "longest_ts": 0, "longest_ns": ns, "intervals": 1,
    } | more  # fmt: skip


def used(name: str, ns: int, **more: Any) -> Row:
    """Kernels of one name."""
    return {
        "rank": 0, "phase": "decode", "name": name, "category": "gemm", "symbol": "g",
        "kernels": 100, "ns": ns, "median_ns": ns / 100,
    } | more  # fmt: skip


def claimed(row: Row) -> dict[int, int]:
    return {one["unit"]: one["ns"] for one in row["claims"] or []}


def require_undecided(row: Row) -> None:
    assert row["is_confirmed"] is None
    assert row["reason"]


def require_ruled_out(row: Row) -> None:
    assert row["is_confirmed"] is False
    assert row["reason"]


# --- another program on the GPU ------------------------------------------------------------------


def shared_events() -> Row:
    content = (SHARED_GPU / "rank0.pt.trace.json.gz").read_bytes()
    document: Row = json.loads(gzip.decompress(content))
    return document


def gpu_shared(document: Row, folder: Path) -> Row:
    file = folder / "rank0.pt.trace.json"
    file.write_text(json.dumps(document))
    with traceql.open(traceql.load(file, folder / "run.duckdb").database) as run:
        (row,) = (one for one in run.query("overview.causes") if one["cause"] == "gpu_shared")
        if row["state"] == "confirmed":
            (row,) = (
                row | one for one in run.query("overview.findings") if one["cause"] == "gpu_shared"
            )
        return row


def test_kernels_that_start_late_on_a_free_gpu_show_another_program(tmp_path: Path) -> None:
    """The host waits for each graph: nothing but its launch can delay the start of the next one."""
    document = shared_events()
    launched = {
        event["args"]["correlation"]: event["ts"] + event["dur"]
        for event in document["traceEvents"]
        if event.get("name") == "cudaGraphLaunch"
    }
    begun: dict[int, float] = {}
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel" and event["args"]["correlation"] in launched:
            correlation = event["args"]["correlation"]
            begun[correlation] = min(begun.get(correlation, event["ts"]), event["ts"])
    late_us = [begun[one] - launched[one] for one in launched if begun[one] - launched[one] > 1000]
    found = gpu_shared(document, tmp_path)
    assert found["severity"] == "severe"
    assert f"{len(late_us)} kernels start late" in found["headline"]
    # Of some, the copy of the step before ends after the launch.
    assert sum(late_us) / 1000 == pytest.approx(float(found["evidence"][0].split()[-4]), rel=0.01)
    assert found["saving_ns"] == pytest.approx(1000 * sum(late_us), rel=0.05)  # one step


def test_a_call_that_streams_wait_for_leaves_late_starts_undecided(tmp_path: Path) -> None:
    document = shared_events()
    (call, *_) = (one for one in document["traceEvents"] if one.get("name") == "cudaGraphLaunch")
    document["traceEvents"].append(call | {"name": "cudaLaunchHostFunc", "args": {}})
    assert gpu_shared(document, tmp_path)["state"] == "undecided"


def test_late_starts_cannot_be_seen_without_launch_calls(tmp_path: Path) -> None:
    document = shared_events()
    document["traceEvents"] = [
        one for one in document["traceEvents"] if one.get("cat") in ("kernel", "gpu_memcpy")
    ]
    found = gpu_shared(document, tmp_path)
    assert found["state"] == "undecided"
    assert "record CPU activities" in found["reason"]


def test_nine_late_starts_prove_nothing() -> None:
    """As after a pause of the whole machine."""
    gaps = [
        {"rank": 0, "device": 0, "ts": 10 * MS * n, "dur": 3 * MS, "cause": "launch",
         "next_kernel_id": n}
        for n in range(9)
    ]  # fmt: skip
    row = row_of(
        "gpu_shared",
        gap=gaps,
        kernel=[{"id": n, "rank": 0, "launch_id": n, "dur": 10 * US} for n in range(9)],
        launch=[{"id": n, "name": "cuLaunch", "ts": 10 * MS * n, "dur": 9} for n in range(9)],
        trace=[{"rank": 0}],
    )
    require_ruled_out(row)


# --- clocks --------------------------------------------------------------------------------------

CAP, SET = 0x4, 0x2


def throttled(clocks: Sequence[tuple[int, int]], *, rank: int | None = 0, **tables: Any) -> Row:
    """The row for these samples of one GPU in the recording: clock (MHz) and NVML's reasons."""
    document = {"gpus": [{"uuid": "GPU-0", "max_sm_clock_mhz": 1980, "power_limit_mw": 700_000}]}
    samples = [
        {"run": "/r", "ts": 100 * MS * n, "rank": rank, "gpu": 3, "uuid": "GPU-0",
         "utilization_pct": 90, "power_mw": 690_000, "sm_clock_mhz": mhz,
         "throttle_reasons": reasons, "in_window": True}
        for n, (mhz, reasons) in enumerate(clocks)
    ]  # fmt: skip
    run = {"run": "/r", "document": json.dumps(document), "window_ts": 0}
    return row_of("gpu_throttled", run=[run], telemetry=samples, **tables)


def test_a_power_limit_that_holds_the_clock_down() -> None:
    """All samples at 1,782 MHz: 10% below 1,980, which only products of many tokens notice."""
    row = throttled(
        [(1782, CAP)] * 12,
        engine_step=[{"step_id": 1, "tokens": 2048}, {"step_id": 2, "tokens": 16}],
        time_unit=[
            unit(0, 100 * MS, category="gemm"),
            unit(1, 100 * MS, category="gemm", step_id=2),
            unit(2, 100 * MS, category="norm"),
        ],
    )
    assert row["is_confirmed"] is True
    require_short(row)
    assert "1,782 of 1,980 MHz" in row["headline"]
    assert claimed(row) == {0: pytest.approx(10 * MS, rel=0.001)}
    assert "-i 3" in row["remedy"]


def test_a_clock_that_a_user_has_set_has_another_remedy() -> None:
    row = throttled([(1200, SET)] * 12)
    assert row["is_confirmed"] is True
    assert row["remedy"] == "nvidia-smi -i 3 -rgc"


def test_one_percent_less_is_fine_though_nvml_names_a_reason() -> None:
    """The samples of a healthy recording, whose products take as long as at 1,980 MHz."""
    row = throttled([(1950, CAP), (1965, CAP), (1980, 0)] * 10)
    require_ruled_out(row)
    assert row["fine"] == "clocks (1,950 of 1,980 MHz)"


def test_few_low_samples_prove_nothing() -> None:
    row = throttled([(1980, 0)] * 20 + [(1500, CAP)] * 9)
    require_undecided(row)
    assert row["fine"] is None


def test_a_low_clock_without_reason_counts_only_if_kernels_are_longer() -> None:
    for pace, expected in ((1.1, True), (1.0, None)):
        row = throttled([(1700, 0)] * 12, rank_pace=[{"rank": 0, "ranks": 2, "pace": pace}])
        assert row["is_confirmed"] is expected


@pytest.mark.parametrize("clocks", [[], [(1980, 0)]])
def test_clocks_of_gpus_without_a_rank_are_not_those_of_the_run(clocks: list[Any]) -> None:
    row = throttled(clocks, rank=None)
    require_undecided(row)
    assert row["fine"] is None


# --- one rank ------------------------------------------------------------------------------------


def late_rank(
    *paces: tuple[float, float], tokens: Sequence[float] = (16, 16), **tables: Any
) -> Row:
    """The row for ranks whose kernels take so much longer, in so large a share of their time."""
    rows = [
        {"rank": rank, "ranks": len(paces), "pace": pace, "slower_share": share, "kinds": 30,
         "tokens": tokens[rank]}
        for rank, (pace, share) in enumerate(paces)
    ]  # fmt: skip
    loaded = [{"rank": rank, "world_size": 2} for rank in range(len(paces))]
    return row_of("late_rank_gpu", rank_pace=rows, trace=loaded, **tables)


def test_a_rank_whose_kernels_are_all_longer() -> None:
    """At 1.25 times the others, a fifth of its time would not be there, and no waiting for it."""
    units = [
        unit(0, 100 * MS, rank=1),
        unit(1, 20 * MS, part="lost", cause="kernel", is_waiting=True, root_rank=1),
        unit(2, 30 * MS, part="lost", cause="host", is_waiting=True, root_rank=1),
    ]
    row = late_rank((0.8, 0.0), (1.25, 1.0), time_unit=units)
    assert row["is_confirmed"] is True
    require_short(row)
    assert row["slow_rank"] == 1
    assert claimed(row) == {0: 20 * MS, 1: 20 * MS}


def test_one_long_kind_of_kernel_is_no_slow_gpu() -> None:
    require_ruled_out(late_rank((0.9, 0.0), (1.1, 0.3)))


def test_more_tokens_are_no_slow_gpu() -> None:
    row = late_rank((0.8, 0.0), (1.25, 1.0), tokens=(16, 32))
    require_ruled_out(row)
    assert "32 tokens" in row["reason"]


def test_one_of_two_ranks_is_not_compared() -> None:
    require_undecided(late_rank((1.0, 0.0)))


def test_equal_ranks_are_fine() -> None:
    assert late_rank((0.997, 0.0), (1.003, 0.0))["fine"] == "equal GPUs (kernels within 0.3%)"


def experts(*ms: int, ep: bool | None = True, pace: float = 1.0) -> Row:
    """The row for ranks whose experts compute for so long."""
    return row_of(
        "expert_imbalance",
        kernel_use=[
            used("fused_moe_kernel", one * MS, rank=rank, role="experts_down", category="moe")
            for rank, one in enumerate(ms)
        ],
        rank_pace=[{"rank": rank, "pace": pace} for rank in range(len(ms))],
        trace=[{"rank": rank} for rank in range(len(ms))],
        engine_setting=[{"has_run_json": ep is not None, "has_config": False, "ep": ep}],
        time_unit=[
            unit(rank, one * MS, rank=rank, role="experts_down", category="moe")
            for rank, one in enumerate(ms)
        ],
    )


def test_experts_of_one_rank_with_more_work() -> None:
    """60 ms against a mean of 40: a third of its time is too much."""
    row = experts(60, 20)
    assert row["is_confirmed"] is True
    require_short(row)
    assert claimed(row) == {0: pytest.approx(20 * MS)}
    assert '{"num_redundant_experts":2}' in row["remedy"]


def test_experts_that_are_split_or_equal_or_on_a_slow_gpu_are_not_unequal() -> None:
    require_ruled_out(experts(60, 20, ep=False))
    require_ruled_out(experts())
    equal = experts(41, 40)
    require_ruled_out(equal)
    assert equal["fine"] == "load of the experts (within 1%)"
    require_undecided(experts(60, 20, pace=1.2))
    require_undecided(experts(60, 20, ep=None))
    require_undecided(experts(60))


# --- kernels -------------------------------------------------------------------------------------


def said(*texts: str) -> list[Row]:
    return [{"run": "/r", "line": n, "text": text} for n, text in enumerate(texts)]


DEFAULT_MOE = (
    "Using default MoE config. Performance might be sub-optimal! "
    "Config file not found at /x/configs/E=128,N=768,device_name=NVIDIA_H200.json"
)


def test_no_tuned_configuration_of_experts() -> None:
    kernels = [used("fused_moe_kernel", 30 * MS, category="moe"), used("nvjet", 70 * MS)]
    run = [{"run": "/r", "model": "org/model", "tp": 2}]
    row = row_of("moe_config_missing", kernel_use=kernels, log_message=said(DEFAULT_MOE), run=run)
    assert row["is_confirmed"] is True
    require_short(row)
    assert "30%" in row["headline"]
    assert "E=128,N=768,device_name=NVIDIA_H200.json" in row["evidence"][0]
    assert "--model org/model --tune --tp-size 2" in row["remedy"]
    require_undecided(row_of("moe_config_missing", kernel_use=kernels))
    tuned = said("Using configuration from /x.json for MoE layer.")
    require_ruled_out(row_of("moe_config_missing", kernel_use=kernels, log_message=tuned))
    # Such a file is for the Triton kernel alone.
    other = [used("bmm_MxE4m3_MxE2m1MxE4m3", 30 * MS, category="moe")]
    require_ruled_out(row_of("moe_config_missing", kernel_use=other, log_message=said(DEFAULT_MOE)))


# Of torch.matmul on an H200: float32, and float32 with TF32.
SINGLE = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x256x32_warpgroupsize2x1x1_execute",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_32x3_nn_align4>(Params)",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>",
    "Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1",
)
BF16 = (
    "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
    "void gemvNSP_kernel<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 1, 32, 4, 1024>",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1",
)


def single(names: Sequence[str], dtype: str | None) -> Row:
    setting = {"has_run_json": dtype is not None, "has_config": dtype is not None, "dtype": dtype}
    return row_of(
        "fp32_or_wrong_dtype",
        kernel_use=[used(name, 10 * MS, role="o_proj") for name in names],
        engine_setting=[setting],
        step=[{"step_id": 1, "phase": "decode"}],
        time_unit=[unit(0, len(names) * 10 * MS, role="o_proj", category="gemm", symbol="g")],
    )


@pytest.mark.parametrize("name", SINGLE)
def test_products_in_float32_take_at_least_twice_as_long(name: str) -> None:
    row = single([name], "float32")
    assert row["is_confirmed"] is True
    require_short(row)
    assert row["remedy"] == "--dtype bfloat16"
    assert claimed(row) == {0: 5 * MS}


def test_products_in_bfloat16_are_not_in_float32() -> None:
    require_ruled_out(single(BF16, "bfloat16"))
    require_ruled_out(single(BF16, None))


def test_float32_in_a_model_of_bfloat16_may_be_meant() -> None:
    require_undecided(single([SINGLE[0], *BF16], "bfloat16"))
    require_undecided(single([SINGLE[0], *BF16], None))
    assert "autocast" in single(SINGLE, None)["remedy"]


TRITON = "kernel_unified_attention_2d"
FA3 = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<x>>>"
BACKENDS = "Using TRITON_ATTN attention backend out of potential backends: "


def attention(
    name: str, *texts: str, device: str | None = "NVIDIA H200", asked: str | None = None
) -> Row:
    config = json.dumps({"attention_config": {"backend": asked}})
    return row_of(
        "slow_attention_backend",
        kernel_use=[used(name, 20 * MS, category="attention"), used("nvjet", 80 * MS)],
        log_message=said(*texts),
        trace=[{"rank": 0, "device_name": device}],
        engine_setting=[{"has_run_json": True, "has_config": True, "config": config}],
    )


def test_triton_attention_where_the_log_names_a_faster_backend() -> None:
    row = attention(TRITON, BACKENDS + "['FLASH_ATTN', 'TRITON_ATTN', 'FLEX_ATTENTION'].")
    assert row["is_confirmed"] is True
    require_short(row)
    assert "20%" in row["headline"]
    assert row["remedy"] == "--attention-backend FLASH_ATTN"


def test_triton_attention_that_a_user_asked_for() -> None:
    row = attention(TRITON, asked="AttentionBackendEnum.TRITON_ATTN")
    assert row["is_confirmed"] is True


def test_triton_attention_without_an_alternative_is_right() -> None:
    require_ruled_out(attention(TRITON, BACKENDS + "['TRITON_ATTN', 'FLEX_ATTENTION']."))
    require_ruled_out(attention(TRITON, device="NVIDIA GeForce RTX 3090"))
    require_undecided(attention(TRITON))
    require_undecided(attention(TRITON, device=None))
    require_undecided(attention("my_attention"))


def test_flash_attention_is_fine() -> None:
    row = attention(FA3)
    require_ruled_out(row)
    assert row["fine"] == "attention (FlashAttention 3, 20% of the kernel time)"


def compiled(mode: int | None, norm: str = "vllm::rms_norm_kernel", **setting: Any) -> Row:
    has_config = mode is not None
    return row_of(
        "unfused_elementwise",
        kernel_use=[used(norm, 10 * MS, category="norm"), used("nvjet", 40 * MS)],
        engine_setting=[
            {"has_run_json": has_config, "has_config": has_config, "compilation_mode": mode,
             "enforce_eager": False, "cudagraph_mode": "FULL_AND_PIECEWISE"} | setting
        ],
        time_unit=[
            unit(0, 244 * US, category="norm", role="input_norm"),
            unit(1, 244 * US, category="norm", role="sample"),
            unit(2, 244 * US, category="gemm", role="o_proj"),
        ],
    )  # fmt: skip


def test_small_kernels_of_a_model_that_is_not_compiled() -> None:
    """A like model needs 158 us where this one needs 244, but for what samples."""
    row = compiled(0)
    assert row["is_confirmed"] is True
    require_short(row)
    assert claimed(row) == {0: pytest.approx(86 * US)}
    require_ruled_out(compiled(3))
    require_ruled_out(compiled(0, cudagraph_mode="NONE"))
    require_ruled_out(compiled(None, norm="triton_red_fused_fused_add_rms_norm_2"))
    require_undecided(compiled(None))


SORT = "void at::native::radixSortKVInPlace<2, -1, 32, 4, float, long, unsigned int>"
LOGPROBS = "_topk_log_softmax_kernel"


def sampled(name: str, ns: int, environment: Mapping[str, str] | None = None) -> Row:
    """Sampling of 2 ms, and this kernel, of 100 ms in all."""
    rest = {"phase": "decode", "role": "sample", "category": "sampling", "symbol": "z"}
    return row_of(
        "sampler_cost",
        kernel_use=[
            used(name, ns, **rest),
            used("_gumbel_sample_kernel", 2 * MS, **rest),
            used("nvjet", 98 * MS - ns),
        ],
        step=[{"step_id": 1, "phase": "decode"}],
        time_unit=[unit(0, ns + 2 * MS, **{k: v for k, v in rest.items() if k != "phase"})],
        engine_setting=[
            {"has_run_json": True, "has_config": True, "environment": json.dumps(environment or {})}
        ],
    )


def test_sorting_the_vocabulary() -> None:
    row = sampled(SORT, 8 * MS, {"VLLM_USE_FLASHINFER_SAMPLER": "0"})
    assert row["is_confirmed"] is True
    require_short(row)
    assert claimed(row) == {0: pytest.approx(8 * MS)}
    assert row["remedy"] == "unset VLLM_USE_FLASHINFER_SAMPLER"
    assert "top_p" in sampled(SORT, 8 * MS)["remedy"]
    assert "logprobs" in sampled(LOGPROBS, 8 * MS, {"VLLM_USE_FLASHINFER_SAMPLER": "0"})["remedy"]


def test_greedy_sampling_is_fine() -> None:
    row = sampled("void at::native::reduce_kernel<512, 1, ArgMaxOps<float>>", 1 * MS)
    require_ruled_out(row)
    assert row["fine"] == "sampling (3.0% of the kernel time)"
    require_undecided(row_of("sampler_cost", kernel_use=[used("nvjet", MS)]))


def test_unknown_kernels_are_named_with_their_share() -> None:
    kernels = [used("my_kernel", 20 * MS, category="other"), used("nvjet", 80 * MS)]
    row = row_of("unclassified_time", kernel_use=kernels)
    assert row["is_confirmed"] is True
    assert row["is_notable"]
    require_short(row)
    assert "my_kernel: 20%" in row["evidence"][1]
    require_ruled_out(row_of("unclassified_time", kernel_use=[used("nvjet", MS)]))
    require_undecided(row_of("unclassified_time"))


# Healthy recordings with experts, of which these take 60 to 69% of the time.
SHARES = [
    {"device": "H200", "dtype": "bfloat16", "parameters": 30.5, "experts": True,
     "phase": "prefill", "category": category, "pct": pct, "source": source,
     "kernel": "fused_moe" if category == "moe" else ""}
    for source, moe in (("a", 60.0), ("b", 69.0))
    for category, pct in (("moe", moe), ("gemm", 100 - moe))
]  # fmt: skip
MXFP4 = "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu"


def dominant(name: str, ms: int, phase: str | None = "mixed") -> Row:
    """The row if one kernel of experts takes so much of 100 ms."""
    kernels = [
        used(name, ms * MS, category="moe", phase=phase),
        used("Cijk", (100 - ms) * MS, phase=phase),
    ]
    return row_of("dominant_kernel", kernel_use=kernels, kernel_share=SHARES)


def test_a_kernel_that_takes_more_than_its_kind_elsewhere() -> None:
    row = dominant("fused_moe_kernel", 85)
    assert row["is_confirmed"] is True
    require_short(row)
    assert row["headline"].startswith("fused_moe_kernel takes 85%")
    assert "60 to 69% in 2 recordings" in row["evidence"][0]
    assert row["category"] == "moe"
    require_ruled_out(dominant("fused_moe_kernel", 65))
    require_undecided(dominant("fused_moe_kernel", 85, phase=None))


def test_a_kernel_of_experts_that_no_recording_has_is_named() -> None:
    row = dominant(MXFP4, 65)
    assert row["is_confirmed"] is True
    assert row["headline"].startswith(f"{MXFP4} takes 65%")
    assert "not known" in row["evidence"][1]
    require_ruled_out(dominant(MXFP4, 20))


def products(**reached: tuple[float, int]) -> Row:
    """Decode steps whose products reach such a share of the roofline, and take so long."""
    times = [
        {"rank": 0, "step_id": 1, "role": role, "kind": "data sheet", "flops": 1, "bound": "memory",
         "work_ns": ns, "floor_ns": share * ns}
        for role, (share, ns) in reached.items()
    ]  # fmt: skip
    units = [
        unit(n, ns, category="gemm", role=role) for n, (role, (_, ns)) in enumerate(reached.items())
    ]
    return row_of(
        "below_roofline",
        role_time=times,
        step=[{"step_id": 1, "number": 1, "phase": "decode"}],
        time_unit=units,
    )


def test_a_product_that_does_not_come_as_close_as_the_best() -> None:
    """At 80% as the other one, 100 us would be 25, and 5 for its start."""
    row = products(lm_head=(0.8, 200 * US), o_proj=(0.2, 100 * US))
    assert row["is_confirmed"] is True
    require_short(row)
    assert "o_proj reaches 20%" in row["headline"]
    assert claimed(row) == {1: pytest.approx(70 * US)}


def test_small_products_cannot_come_as_close() -> None:
    """Of an H100: 6.6 us of work at the roofline take 12.4 us, because 5 are for start and end."""
    row = products(lm_head=(0.83, 220 * US), qkv_proj=(0.53, 12_400))
    require_ruled_out(row)
    assert row["fine"] == "products (81% of the roofline)"


def test_products_faster_than_the_data_sheet_decide_nothing() -> None:
    require_undecided(products(lm_head=(1.2, 200 * US), o_proj=(0.2, 100 * US)))
    require_undecided(products())
