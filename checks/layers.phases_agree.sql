-- One row per rank and role of layers that prefill has and decode has not, or the other way round.
WITH phase_role AS (
    SELECT DISTINCT kernel.rank, kernel.role, step.phase
    FROM kernel
    INNER JOIN step USING (step_id)
    WHERE kernel.layer IS NOT NULL AND step.phase IN ('prefill', 'decode')
)
SELECT rank, role, STRING_AGG(phase) AS only_in
FROM phase_role
WHERE rank IN (SELECT rank FROM phase_role GROUP BY rank HAVING COUNT(DISTINCT phase) = 2)
GROUP BY rank, role
HAVING COUNT(*) = 1
ORDER BY ALL
