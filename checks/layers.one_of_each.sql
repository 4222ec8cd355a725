-- One row per layer and role that a forward pass does not have exactly once.
--
-- It counts only the kernels that do the work: one attention, one qkv and one o projection; one
-- norm before attention and one after it; one gate_up projection, activation and down projection,
-- or one of each role of an expert layer.
WITH work AS (
    SELECT
        kernel.rank,
        kernel.pass,
        kernel.layer,
        kernel.role,
        COUNT(*) FILTER (kernel.symbol IN ('g', 'a', 'k', 'v', 'T', 'X', 'n', 'F')) AS kernels
    FROM kernel
    WHERE kernel.layer IS NOT NULL
    GROUP BY kernel.rank, kernel.pass, kernel.layer, kernel.role
),
layer_done AS (
    SELECT DISTINCT rank, pass, layer FROM work WHERE pass IS NOT NULL
),
expected AS (
    SELECT
        layer_done.*,
        UNNEST(
            CASE
                WHEN rank_model.family IN ('qwen3_moe', 'mixtral')
                    THEN [
                        'input_norm', 'kv_write', 'attention', 'qkv_proj', 'o_proj',
                        'post_attn_norm', 'router', 'topk',
                        'experts_gate_up', 'experts_down'
                    ]
                ELSE [
                    'input_norm', 'kv_write', 'attention', 'qkv_proj', 'o_proj',
                    'post_attn_norm', 'gate_up_proj', 'act', 'down_proj'
                ]
            END
        ) AS role
    FROM layer_done
    INNER JOIN rank_model USING (rank)
)
SELECT
    expected.rank,
    expected.pass,
    expected.layer,
    expected.role,
    COALESCE(work.kernels, 0) AS kernels
FROM expected
LEFT JOIN work USING (rank, pass, layer, role)
WHERE COALESCE(work.kernels, 0) <> 1
ORDER BY ALL
