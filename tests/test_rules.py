"""The kernel rules: each rule against its own example, known names, and real traces."""

import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from traceql.analysis.classification.rules import read_rules
from traceql.analysis.layers.kernel_text import symbols
from traceql.errors import RulesInvalid

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "traceql" / "analysis" / "classification" / "kernels.csv"
SIGNS = ROOT / "traceql" / "sql" / "tables" / "quantization_pattern.csv"
TRACES = ROOT.parent / "shared" / "traces"
# 154 MB of JSON each, with the kernels of the other traces of the same model.
TOO_LARGE = "qwen3-8b-tp2-graph-serving"

CATEGORIES = {
    *("gemm", "attention", "kv_cache", "norm", "rope", "activation", "moe", "collective"),
    *("elementwise", "sampling", "input_prep", "memcpy", "memset", "graph", "other"),
}
# What each name is was decided by reading the kernel, not by running the rules.
# Names are whole, or whole up to the parameter list.
FA3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
    "flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, "
    "cute::tuple<cute::C<64>, cute::C<128>, cute::C<128> >, 128, cutlass::bfloat16_t, float, "
    "cutlass::arch::Sm90, true, false, false, true, true, false, false, true, true, true, true, "
    "false, cutlass::bfloat16_t, 1>, flash::CollectiveEpilogueFwd<cute::tuple<cute::C<64>, "
    "cute::C<128>, cute::C<128> >, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, "
    "cutlass::bfloat16_t, cutlass::arch::Sm90, 128, true, true, true, false, 1>, "
    "flash::VarlenDynamicPersistentTileScheduler<64, 128, 128, 128, true, true, true, true, "
    "false, true> > > >"
)
FA3_COMBINE = (
    "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, "
    "cute::C<128> >, 5, 256, 1, false, true, cutlass::bfloat16_t, float, cutlass::arch::Sm90> >"
)
FUSED_ADD_RMS_NORM = (
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
    "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8, true>(c10::BFloat16*, long, "
    "c10::BFloat16*, c10::BFloat16 const*, float, int, int)"
)
ACT_AND_MUL = (
    "void vllm::act_and_mul_kernel<c10::BFloat16, __nv_bfloat162, &(c10::BFloat16 "
    "vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&, float)), &(__nv_bfloat162 "
    "vllm::packed_silu_kernel<__nv_bfloat162>(__nv_bfloat162 const&, float)), true, true, "
    "false, false>(c10::BFloat16*, c10::BFloat16 const*, int, float, float, float)"
)
ONESHOT_LAMPORT = (
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
    "(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 2, false, "
    "false>(flashinfer::trtllm_allreduce_fusion::AllReduceFusionParams<__nv_bfloat16>)"
)
CROSS_DEVICE_REDUCE = (
    "void vllm::cross_device_reduce_{}stage<__nv_bfloat16, 2>(vllm::RankData*, "
    "vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)"
)
TORCH_COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() "
    "const::{lambda(float)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned "
    "int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, "
    "at::native::memory::StoreWithCast<1> >"
)
TORCH_SCATTER = (
    "void at::native::_scatter_gather_elementwise_kernel<128, 8, "
    "at::native::_cuda_scatter_gather_internal_kernel<false, at::native::OpaqueType<8>, long>::"
    "operator()<at::native::TensorAssign>(at::TensorIterator&, long, long, long, "
    "at::native::TensorAssign const&)::{lambda(int)#1}>"
)
SPLIT_K_REDUCE = (
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, "
    "false, float, __nv_bfloat16, __nv_bfloat16, true, false, false, false>"
)
DEEP_GEMM = (
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 4096u, 1024u, 1u, 256u, "
    "128u, 128u, 128u, 128u, 128u, 3u, 128u, 256u, 2u, true, 132u, (deep_gemm::GemmType){}, "
    "deep_gemm::epilogue::transform::EpilogueIdentity>"
)
MACHETE = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, "
    "int>, machete::MacheteCollectiveMma<cute::tuple<cutlass::integer_subbyte<4, false>"
)
GROUPED_CUTLASS = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<"
    "cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int> >"
)
MOE_MARLIN = (
    "void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l, 1125899906909960l, "
    "2814749767106568l, 128, 4, 8, 4, false, 4, 2, false>"
)
TRTLLM_BMM = (
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_"
    "transOut_schedP2x1x2x3_biasM_bN_tma_tmaOpt_clmp_swiGlu_dynBatch_sm100f"
)
CUBLAS_HOPPER = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
    "segment_k_off_kernel__5x_cublas"
)
WMMA = "cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_128x2_tn_align8"
FLASH_ATTENTION_4 = (
    "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__"
    "tensor0000o11101213_tensor0000o11101213_tensor0000o10111213_tensor0000o11101213_None_None_"
    "None_Non_0"
)
CK_CONV = (
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_"
    "28GridwiseGemm_xdl_cshuffle_v3INS_13tensor_layout4gemm8RowMajor"
)
CK_FMHA = "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_40BlockFmha"
FP8_MAXIMUM = (
    "void vllm::segmented_max_reduction_strided<c10::BFloat16, c10::Float8_e4m3fn>(float*, "
    "c10::BFloat16 const*, int, long, long)"
)
FP8_PER_TOKEN = (
    "void vllm::dynamic_per_token_scaled_fp8_quant_kernel_strided<c10::BFloat16, "
    "c10::Float8_e4m3fn>(c10::Float8_e4m3fn*, float*, c10::BFloat16 const*, float const*, int, "
    "long, long)"
)
FP8_NORM = "void vllm::rms_norm_static_fp8_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn, 16>"
INDUCTOR_QUANTIZE = (
    "triton_red_fused__to_copy_abs_clamp_cutlass_scaled_mm_div_max_mul_reciprocal_unsqueeze_view_0"
)
INDUCTOR_SILU_QUANTIZE = (
    "triton_red_fused__to_copy_abs_clamp_cutlass_scaled_mm_div_max_mul_reciprocal_silu_slice_"
    "unsqueeze_2"
)
INDUCTOR_NORM_QUANTIZE = (
    "triton_red_fused__to_copy_abs_clamp_cutlass_scaled_mm_div_fused_add_rms_norm_max_mul_"
    "reciprocal_unsqueeze_1"
)
BLOCK_SCALE = (
    "void tensorrt_llm::kernels::fp8_blockscale_gemm::scale_1x128_kernel<__nv_bfloat16, "
    "__nv_fp8_e4m3, float>"
)
GROUPED_TOPK = (
    "void vllm::moe::grouped_topk_fused_small_expert_count_kernel<__nv_bfloat16, float, int, "
    "(vllm::moe::ScoringFunc)1, 256, true, 8>"
)
TOPK_GATING = "void vllm::moe::topkGating<8, 128, 4, 16, 32, int, __nv_bfloat16>"
RAGGED_PREFILL = (
    "void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<"
    "(flashinfer::MaskMode)1, 128u, 2u, 1u, 8u, 8u, 4u, 1u, (flashinfer::PosEncodingMode)0"
)
MERGE_STATES = (
    "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u, float, "
    "__nv_bfloat16, int>"
)
AITER_FMOE = "_ZN5aiter48fmoe_stage1_bf16_pertokenFp8_g1u1_64x128_2tg_pf3E"

TRAPS = [
    # CUTLASS by name, attention by nature
    (FA3, "attention"),
    (FA3_COMBINE, "attention"),
    (FLASH_ATTENTION_4, "attention"),
    # every vendor's GEMM
    ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", "gemm"),
    (CUBLAS_HOPPER, "gemm"),
    (f"void cutlass::Kernel2<{WMMA}>({WMMA}::Params)", "gemm"),
    (SPLIT_K_REDUCE, "gemm"),
    ("Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0_APM1_ABV0", "gemm"),
    # the return type comes first
    (FUSED_ADD_RMS_NORM, "norm"),
    # Inductor names carry the names of other ops
    ("triton_poi_fused_add_all_reduce_4", "elementwise"),
    ("triton_red_fused_fused_add_rms_norm_moe_forward_0", "norm"),
    ("triton_poi_fused_rocm_unquantized_gemm_silu_0", "activation"),
    ("triton_red_fused__to_copy_add_marlin_gemm_mean_mul_pow_rsqrt_1", "norm"),
    ("triton_red_fused__to_copy_add_copy__fused_add_rms_norm_moe_forward_shared_3", "norm"),
    # which is why one that lists a product is none
    ("triton_red_fused_mm_mul_silu_t_9", "activation"),
    ("triton_poi_fused_machete_mm_mul_silu_slice_1", "activation"),
    ("triton_red_fused__to_copy_embedding_machete_mm_rms_norm_0", "norm"),
    (INDUCTOR_SILU_QUANTIZE, "activation"),
    (INDUCTOR_QUANTIZE, "elementwise"),
    (INDUCTOR_NORM_QUANTIZE, "norm"),
    ("triton_tem_fused_mm_0", "gemm"),
    ("triton_mm", "gemm"),
    # a gated norm, in one kernel or two, is not the activation of an MLP
    ("triton_poi_fused__to_copy_add_mean_mul_pow_rsqrt_silu_view_1", "norm"),
    ("triton_poi_fused__to_copy_add_mean_mm_mul_pow_rsqrt_silu_t_view_2", "norm"),
    ("triton_red_fused__to_copy_mean_mul_pow_silu_view_0", "norm"),
    # fused with quantization
    (FP8_NORM, "norm"),
    ("_fused_rms_fp8_group_quant_kernel", "norm"),
    ("_q_kv_norm_quant_kernel", "norm"),
    ("_act_mul_and_dynamic_mxfp4_quant_kernel", "activation"),
    ("_paged_attn_decode_v1_w_dot_kernel_per_token_quant", "attention"),
    # gemm is only a part of another word, or of a namespace
    ("_grouped_gemma_rmsnorm_kernel", "norm"),
    (BLOCK_SCALE, "elementwise"),
    # communication, mostly without nccl in the name
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective"),
    ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "collective"),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)", "collective"),
    ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32(ncclSymkDevWorkArgs4K)", "collective"),
    (CROSS_DEVICE_REDUCE.format(1), "collective"),
    (CROSS_DEVICE_REDUCE.format(2), "collective"),
    (
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>("
            "c10::BFloat16*, unsigned long, unsigned int**, unsigned long, unsigned long)"
        ),
        "collective",
    ),
    (
        (
            "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>("
            "c10::BFloat16**, unsigned long, unsigned long, unsigned int**)"
        ),
        "collective",
    ),
    (
        "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>",
        "collective",
    ),
    (ONESHOT_LAMPORT, "collective"),
    ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*)", "collective"),
    ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>", "collective"),
]

KNOWN = [
    ("void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched>>", "gemm"),
    ("_ZN5aiter37flatmm_uk_gfx9_f16f8_128x256x128_1x4_16x16x32E", "gemm"),
    ("igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x64_wt32x32x8_ws1x1_wr1x1", "gemm"),
    ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>", "gemm"),
    (CK_CONV, "gemm"),
    (DEEP_GEMM.format(0), "gemm"),
    (CK_FMHA, "attention"),
    ("paged_attention_v2_kernel", "attention"),
    ("bwd_kernel_fuse", "attention"),
    ("bwd_preprocess", "attention"),
    ("_vllm_layout_trans_kernel", "kv_cache"),
    ("triton_red_fused__to_copy_embedding_rms_norm_0", "norm"),
    ("void flashinfer::norm::GemmaFusedAddRMSNormKernel<8u, __nv_bfloat16>", "norm"),
    ("void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>", "norm"),
    ("_prepare_prefill_inputs_kernel", "input_prep"),
    ("_gather_block_tables_kernel", "input_prep"),
    ("_apply_write_kernel", "input_prep"),
    (TORCH_COPY, "elementwise"),
    (TORCH_SCATTER, "elementwise"),
    ("triton__0d1d2d3d4d5d6d", "elementwise"),
    ("triton_red_fused__softmax_exp_max_prepare_softmax_online_sub_view_0", "elementwise"),
    ("void deep_gemm::sched::sm90_paged_mqa_logits_metadata<32u, 256u, 132u>", "input_prep"),
    ("void deep_gemm::smxx_clean_logits<1u, 2048u, 4u>", "attention"),
    ("get_mla_metadata_kernel", "input_prep"),
    ("void vllm::awq::gemm_forward_4bit_cuda_m16nXk32<128>", "gemm"),
    ("void vllm::gptq::gemm_half_q_half_gptq_4bit_kernel<true, 8>", "gemm"),
    (MACHETE, "gemm"),
    ("AppendPagedKVCacheKernel", "kv_cache"),
    ("_reshape_cache_per_token_head", "kv_cache"),
    ("a_kernel_of_somebody_else", "other"),
]

# Symbols tell kernels of one category apart.
SYMBOLS = [
    (FP8_MAXIMUM, "quantize"),
    (FP8_PER_TOKEN, "quantize"),
    (INDUCTOR_QUANTIZE, "quantize"),
    (BLOCK_SCALE, "quantize"),
    ("void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>", "quantize"),
    ("_downcast_to_mxfp", "quantize"),
    ("triton_poi_fused_4", "elementwise"),
    # gpt-oss
    ("_topk_forward", "topk"),
    ("_sum_bitmatrix_rows", "expert_sort"),
    ("_routing_clear_bitmatrix", "expert_sort"),
    ("_expt_data_compute", "expert_sort"),
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_64x256x128x1", "expert_gemm"),
    ("_reduce_grouped", "expert_sum"),
    ("_finalize_matmul_scatter_bf16", "expert_sum"),
    # other experts
    (TOPK_GATING, "topk"),
    (GROUPED_TOPK, "topk"),
    ("_gemma4_routing_kernel", "topk"),
    ("preprocessTopkIdKernel", "expert_sort"),
    ("fused_moe_kernel", "expert_gemm"),
    (MOE_MARLIN, "expert_gemm"),
    (TRTLLM_BMM, "expert_gemm"),
    (GROUPED_CUTLASS, "expert_gemm"),
    (DEEP_GEMM.format(1), "expert_gemm"),
    ("m_grouped_bf16_gemm_contiguous_tl_impl", "expert_gemm"),
    (AITER_FMOE, "expert_gemm"),
    ("void vllm::moe::moe_sum_vec_kernel<c10::BFloat16, 8>", "expert_sum"),
    ("_fwd_kernel_ep_gather", "expert_sum"),
    # linear attention and state-space models
    ("kda_gate_fwd_kernel", "attention"),
    ("chunk_gla_fwd_kernel_o", "attention"),
    ("chunk_kda_fwd_kernel_inter_solve_fused", "attention"),
    ("fused_sigmoid_gating_delta_rule_update_kernel", "attention"),
    ("_fused_post_conv_kernel", "attention"),
    ("fused_recurrent_kda_packed_decode_kernel", "attention"),
    ("_fwd_diag_kernel", "attention"),
    ("_fwd_kv_parallel", "attention"),
    ("_linear_attn_decode_kernel", "attention"),
    ("_selective_scan_update_kernel", "attention"),
    ("_chunk_cumsum_fwd_kernel", "attention"),
    ("_state_passing_fwd_kernel", "attention"),
    ("_causal_conv1d_update_kernel", "state_update"),
    ("_causal_conv1d_fwd_kernel", "state_prefill"),
    # softmax attention and its parts
    (FA3_COMBINE, "attention_combine"),
    ("flash_fwd_mla_combine_kernel", "attention_combine"),
    ("void flashinfer::mla::BatchMLAPagedAttentionKernel<128u, 512u, 64u>", "attention"),
    (RAGGED_PREFILL, "attention"),
    (MERGE_STATES, "attention_combine"),
    ("void vllm::merge_attn_states_kernel<__nv_bfloat16, 128u>", "attention_combine"),
    ("_fwd_grouped_kernel_stage1", "attention"),
    ("_fwd_kernel_stage2", "attention_combine"),
    ("reduce_segments", "attention_combine"),
    ("kn_mla_reduce_v1", "attention_combine"),
]


class Rule(NamedTuple):
    priority: int
    pattern: str
    category: str
    example: str
    note: str


class Match(NamedTuple):
    priority: int | None
    category: str


@cache
def rules() -> tuple[Rule, ...]:
    with RULES.open(encoding="utf-8", newline="") as file:
        return tuple(Rule(int(row.pop("priority")), **row) for row in csv.DictReader(file))


@cache
def rule_table() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(
        """
        CREATE TABLE rule AS
        SELECT priority::INTEGER AS priority, pattern, category
        FROM READ_CSV(?, header = true, all_varchar = true, delim = ',', quote = '"', escape = '"')
        """,
        [str(RULES)],
    )
    return con


def classified(names: Iterable[str]) -> dict[str, Match]:
    """What the rules make of each name: the lowest priority that matches wins."""
    query = """
        SELECT name, MIN(priority), COALESCE(ARG_MIN(category, priority), 'other')
        FROM (SELECT DISTINCT UNNEST(?::VARCHAR[]) AS name)
        LEFT JOIN rule ON REGEXP_MATCHES(name, pattern)
        GROUP BY name
    """
    rows = rule_table().execute(query, [list(names)]).fetchall()
    return {name: Match(priority, category) for name, priority, category in rows}


@cache
def known() -> dict[str, Match]:
    names = [name for name, _ in TRAPS + KNOWN + SYMBOLS]
    return classified(names + [rule.example for rule in rules()])


def symbol_of(name: str) -> str | None:
    """The first symbol of the name's category whose pattern matches the name."""
    query = "SELECT REGEXP_MATCHES(?, ?)"
    of_category = [one for one in symbols() if one.category == known()[name].category]
    matches = (
        one.name
        for one in of_category
        if rule_table().execute(query, [name, one.pattern]).fetchone() == (True,)
    )
    return next(matches, None)


def test_priorities_are_unique_and_ascending() -> None:
    priorities = [rule.priority for rule in rules()]
    assert priorities == sorted(set(priorities))


def test_categories_are_those_of_the_contract() -> None:
    assert {rule.category for rule in rules()} <= CATEGORIES


def test_every_rule_is_complete() -> None:
    assert [rule for rule in rules() if not all(rule)] == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule.priority))
def test_pattern_is_valid_re2(rule: Rule) -> None:
    assert duckdb.execute("SELECT REGEXP_MATCHES('', ?)", [rule.pattern]).fetchone() is not None


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule.priority))
def test_example_resolves_to_its_own_rule(rule: Rule) -> None:
    assert known()[rule.example] == Match(rule.priority, rule.category)


@pytest.mark.parametrize(("name", "category"), TRAPS)
def test_misleading_name_is_seen_through(name: str, category: str) -> None:
    assert known()[name].category == category


@pytest.mark.parametrize(("name", "category"), KNOWN)
def test_known_kernel_has_its_category(name: str, category: str) -> None:
    assert known()[name].category == category


@pytest.mark.parametrize(("name", "symbol"), SYMBOLS)
def test_known_kernel_has_its_symbol(name: str, symbol: str) -> None:
    assert symbol_of(name) == symbol


@pytest.mark.parametrize("text", ["hello\n", "priority,pattern\n", "\n", ""])
def test_a_file_without_the_header_is_no_file_of_rules(text: str, tmp_path: Path) -> None:
    file = tmp_path / "h.txt"
    file.write_text(text)
    with pytest.raises(RulesInvalid) as error:
        list(read_rules(file))
    assert str(error.value) == (
        f"{file}: the first line must name the columns priority,pattern,category"
    )


def test_a_header_without_rules_is_a_file_of_no_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.csv"
    file.write_text("priority,pattern,category\n")
    assert list(read_rules(file)) == []


def trace_files() -> list[Path]:
    """One rank of each run, but both ends of a pipeline: other ranks run the same kernels."""
    return [
        path
        for path in sorted(TRACES.rglob("*.json.gz"))
        if TOO_LARGE not in path.parts
        and ("rank" not in path.name or "rank0" in path.name or "pp2" in path.parent.name)
    ]


@cache
def kernel_us(path: Path) -> Counter[str]:
    """Summed duration, us, by kernel name; copies and fills under their kind."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    total: Counter[str] = Counter()
    for event in events:
        kind = str(event.get("cat", "")).lower()
        if kind == "kernel":
            total[event["name"]] += event["dur"]
        elif kind in ("gpu_memcpy", "gpu_memset"):
            total[kind] += event["dur"]
    return total


@cache
def trace_categories() -> dict[str, Match]:
    return classified({name for path in trace_files() for name in kernel_us(path)})


def category_us(path: Path) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for name, duration_us in kernel_us(path).items():
        is_kind = name in ("gpu_memcpy", "gpu_memset")
        total[name if is_kind else trace_categories()[name].category] += duration_us
    return total


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here")
@pytest.mark.parametrize("path", trace_files(), ids=lambda path: str(path.relative_to(TRACES)))
def test_hardly_any_gpu_time_of_a_real_trace_is_other(path: Path) -> None:
    categories = category_us(path)
    limit = 0.05 if "third-party" in path.parts else 0.01
    assert categories.get("other", 0) < limit * sum(categories.values())


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here")
@pytest.mark.parametrize(
    ("path", "collective_ms"),
    [
        ("qwen3-8b-tp1-graph/rank0.pt.trace.json.gz", 0),
        ("qwen3-32b-tp4-graph-nccl/rank0.pt.trace.json.gz", 36.9),
        ("qwen3-30b-a3b-tp4-ep-graph/dp0_pp0_tp0_dcp0_ep0_rank0.pt.trace.json.gz", 70.2),
        ("third-party/tracelens/mi300x-resnet-training.json.gz", 71.5),
    ],
)
def test_collectives_of_a_real_trace_add_up(path: str, collective_ms: float) -> None:
    measured = category_us(TRACES / path).get("collective", 0.0) / 1000
    assert measured == pytest.approx(collective_ms, abs=0.05)


def signs() -> list[dict[str, str]]:
    with SIGNS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("sign", signs(), ids=lambda sign: sign["pattern"])
def test_each_sign_of_quantization_matches_its_example(sign: dict[str, str]) -> None:
    matches = "SELECT regexp_matches($example, $pattern)"
    said = {name: sign[name] for name in ("example", "pattern")}
    assert duckdb.execute(matches, said).fetchall() == [(True,)]


@pytest.mark.parametrize(
    "name",
    [
        FA3,
        FUSED_ADD_RMS_NORM,
        ACT_AND_MUL,
        "nvjet_sm90_tst_192x8_64x8_2x1_v_bz_TNT",
        "triton_poi_fused_rocm_unquantized_gemm_silu_0",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void vectorized_copy<int4, uint4>(int4*, uint4 const*)",  # CUDA's vectors of four
    ],
)
def test_kernels_for_wide_numbers_are_no_sign_of_quantization(name: str) -> None:
    matching = [
        sign["pattern"]
        for sign in signs()
        if duckdb.execute("SELECT regexp_matches(?, ?)", [name, sign["pattern"]]).fetchall()[0][0]
    ]
    assert matching == []
