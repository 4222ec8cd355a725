-- One row per rank, phase and role that layers have in another phase but not in this one.
--
-- A phase that writes to a KV cache but has no layers at all is missing every role. Of models of an
-- unknown family, only the role kv_write counts, because their other roles may depend on the phase.
WITH phase AS (
    SELECT DISTINCT kernel.rank, step.phase
    FROM kernel
    INNER JOIN step USING (step_id)
    WHERE kernel.category = 'kv_cache' AND step.phase IS NOT NULL
),
phase_role AS (
    SELECT DISTINCT kernel.rank, step.phase, kernel.role
    FROM kernel
    INNER JOIN step USING (step_id)
    LEFT JOIN internal.rank_model ON kernel.rank = rank_model.rank
    WHERE kernel.layer IS NOT NULL AND kernel.role IS NOT NULL
        AND (rank_model.family IS NOT NULL OR kernel.role = 'kv_write')
)
SELECT phase.rank, phase.phase, rank_role.role
FROM phase
INNER JOIN (SELECT DISTINCT rank, role FROM phase_role) AS rank_role USING (rank)
LEFT JOIN phase_role
    ON phase.rank = phase_role.rank AND phase.phase = phase_role.phase
    AND rank_role.role = phase_role.role
WHERE phase_role.role IS NULL
ORDER BY ALL
