-- One row per call of an operator whose recorded shapes give the work of its kernels.
-- @kind   scratch
-- @scope  rank
-- @needs  event_kind, slice
-- @column rank         BIGINT     Rank.
-- @column external_id  BIGINT     Number that the kernels it launched have in their arguments.
-- @column name         VARCHAR    Name of the operator.
-- @column dims         JSON[]     Shape of each input.
-- @column types        VARCHAR[]  Element type of each input.
-- @column given        VARCHAR[]  Value of each input that is a number, as text; NULL if they were not recorded.
SELECT
    slice.rank, slice.external_id, slice.name,
    TRY_CAST(json_extract(slice.args, '$."Input Dims"') AS JSON[]) AS dims,
    TRY_CAST(json_extract(slice.args, '$."Input type"') AS VARCHAR[]) AS types,
    TRY_CAST(json_extract(slice.args, '$."Concrete Inputs"') AS VARCHAR[]) AS given
FROM slice
INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
WHERE
    event_kind.kind = 'operator'
    AND slice.name IN (
        'aten::mm', 'aten::addmm', 'aten::_scaled_mm', '_C::cutlass_scaled_mm', '_C::fused_add_rms_norm',
        '_C::rotary_embedding', '_C::rms_norm', '_C::silu_and_mul', '_C::gelu_and_mul', '_C::gelu_tanh_and_mul',
        '_moe_C::topk_softmax', '_moe_C::moe_sum', '_C_cache_ops::reshape_and_cache_flash',
        '_C_cache_ops::concat_and_cache_mla', '_vllm_fa3_C::fwd', 'aten::index_select'
    )
    AND slice.args LIKE '%"Input Dims"%'
