-- One row per kernel outside the sequence of forward passes: the role that follows from its symbol and from the time at which it ran.
--
-- These are the kernels of streams without forward passes, and the communication between pipeline
-- stages. Small kernels and fills prepare input if they ran before the layers of their step, and
-- belong to sampling if they ran after them; for copies in between, the direction decides. Sends
-- and receives have the role that their arguments name.
-- @kind   scratch
-- @scope  run
-- @needs  classified_kernel, communication_args, kernel_layer, model_stream, rank_model, symbol
-- @empty_unless rank_model
-- @column id    BIGINT   Kernel (classified_kernel.id).
-- @column role  VARCHAR  Role; NULL if unknown.
WITH outside AS (
    SELECT
        kernel.id,
        kernel.rank,
        kernel.ts,
        kernel.name,
        kernel.step_id,
        kernel.symbol,
        model_stream.stream IS NULL AS is_beside
    FROM classified_kernel AS kernel
    LEFT JOIN model_stream USING (rank, device, stream)
    WHERE
        model_stream.stream IS NULL
        OR kernel.symbol IN (
            SELECT letter FROM symbol WHERE name IN ('point_to_point', 'communication')
        )
),
span AS (
    SELECT kernel.step_id, MIN(kernel.ts) AS first_ts, MAX(kernel.ts) AS last_ts
    FROM kernel_layer
    INNER JOIN classified_kernel AS kernel USING (id)
    WHERE kernel_layer.layer IS NOT NULL
    GROUP BY kernel.step_id
)
SELECT
    kernel.id,
    CASE
        WHEN symbol.role_outside_layers IS NOT NULL THEN symbol.role_outside_layers
        WHEN described.operation LIKE '%send%' AND described.operation NOT LIKE '%recv%' THEN 'pp_send'
        WHEN described.operation LIKE '%recv%' AND described.operation NOT LIKE '%send%' THEN 'pp_recv'
        WHEN symbol.name IN ('point_to_point', 'communication') AND rank_model.stages > 1 AND rank_model.stage IS NOT NULL THEN
            CASE
                WHEN (rank_model.stage = 0) = (symbol.name = 'point_to_point') THEN 'pp_send'
                WHEN rank_model.stage = rank_model.stages - 1 OR symbol.name = 'communication'
                    OR kernel.ts < span.first_ts THEN 'pp_recv'
                ELSE 'pp_send'
            END
        WHEN symbol.name IN ('point_to_point', 'communication') AND COALESCE(rank_model.stages, 2) > 1 THEN 'pp_exchange'
        WHEN NOT list_contains(symbol.traits, 'moves_data') THEN NULL
        WHEN kernel.ts < span.first_ts THEN 'input_prep'
        WHEN kernel.ts > span.last_ts THEN 'sample'
        WHEN span.first_ts IS NOT NULL AND kernel.name LIKE '%HtoD%' THEN 'input_prep'
        WHEN span.first_ts IS NOT NULL AND kernel.name LIKE '%DtoH%' THEN 'sample'
    END AS role
FROM outside AS kernel
INNER JOIN symbol ON kernel.symbol = symbol.letter
INNER JOIN rank_model USING (rank)
LEFT JOIN span USING (step_id)
LEFT JOIN communication_args AS described
    ON kernel.id = described.kernel_id AND symbol.name = 'point_to_point'
LEFT JOIN kernel_layer ON kernel.id = kernel_layer.id
WHERE (kernel.is_beside AND kernel_layer.layer IS NULL)
    OR symbol.name IN ('point_to_point', 'communication')
