-- One row: the grain at which the runs are compared.
-- @column grain  VARCHAR  kv (strata are split by the length of the KV cache) if every run has it, else rows.
WITH known AS (
    SELECT side, run, BOOL_OR(grain = 'kv') AS has_lengths
    FROM profile_stratum
    GROUP BY side, run
)
SELECT CASE WHEN BOOL_AND(has_lengths) THEN 'kv' ELSE 'rows' END AS grain
FROM known
