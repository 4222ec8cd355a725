-- One row per communication kernel whose own arguments say nothing: the inputs of the operator that launched it.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, communication_args, event_kind, slice
-- @column kernel_id  BIGINT     Kernel (classified_kernel.id).
-- @column dims       JSON[]     Shape of each input of the innermost operator around the launch call.
-- @column types      VARCHAR[]  Element type of each input.
WITH called AS (
    SELECT kernel.id, kernel.rank, slice.external_id
    FROM classified_kernel AS kernel
    INNER JOIN slice USING (id)
    LEFT JOIN communication_args ON kernel.id = communication_args.kernel_id
    WHERE
        kernel.category = 'collective'
        AND NOT kernel.in_graph
        AND communication_args.kernel_id IS NULL
)
SELECT
    called.id AS kernel_id,
    TRY_CAST(arg_max(json_extract(slice.args, '$."Input Dims"'), slice.depth) AS JSON[]) AS dims,
    TRY_CAST(arg_max(json_extract(slice.args, '$."Input type"'), slice.depth) AS VARCHAR[]) AS types
FROM called
INNER JOIN slice ON called.rank = slice.rank AND called.external_id = slice.external_id
INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
WHERE event_kind.kind = 'operator' AND slice.args LIKE '%"Input Dims"%'
GROUP BY called.id
