-- Some checks of the ledger failed.
--
-- Where a check of time fails, kernels have no category, layer or role, but nothing was lost.
-- @title      broken ledger
-- @notable    1
-- @severe     1
-- @unit       checks failed
-- @evidence   quality.ledger
-- @advice     traceql run quality.ledger lists the checks with what each compares.
-- @source     own: any failed check may make other numbers wrong
-- @needs      ledger
WITH failed AS (
    SELECT check_name, starts_with(check_name, 'time ') AS is_of_time
    FROM ledger
    WHERE NOT ok
),
named AS (
    SELECT array_to_string(list(check_name ORDER BY is_of_time, check_name)[:4], ', ') AS checks
    FROM (SELECT DISTINCT check_name, is_of_time FROM failed)
)
SELECT
    COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    format(
        '{} of the ledger failed: {}.{}',
        CASE COUNT(*) WHEN 1 THEN 'A check' ELSE COUNT(*) || ' checks' END,
        ANY_VALUE(named.checks),
        CASE WHEN BOOL_AND(failed.is_of_time)
            THEN ' No event was lost, but some kernels have no category, layer or role.'
        ELSE '' END
    ) AS finding,
    CASE WHEN BOOL_AND(failed.is_of_time) THEN 'Add rules for these kernels (traceql load --rules mine.csv).'
        ELSE 'Do not trust sums from this database until the reason is known.'
    END AS advice,
    BOOL_AND(failed.is_of_time) AS is_uncertain
FROM failed
CROSS JOIN named
