-- Checks of the ledger failed: the database lacks something that is in the file, or that the profiler lost.
--
-- It is severe if sums lack GPU activity. Kernels without a layer, role or category are another cause's: all of their time counts.
-- @title   checks of the ledger failed
-- @group   recording
-- @query   quality.ledger
-- @record  Load a trace.
-- @source  own: what is missing from the GPU activity is missing from every sum
-- @needs   ledger, lost_records
WITH failed AS (
    SELECT
        check_name,
        SUM(value) AS value,
        SUM(total) AS total,
        -- 1% of them: as much as may be unclassified.
        CASE
            WHEN regexp_matches(check_name, '(?i)^(events|duration) (kernel|gpu_memcpy|gpu_memset|cuda_gpu|task)') THEN TRUE
            WHEN check_name = 'idle in gaps' OR check_name = 'trace processor errors' THEN TRUE
            WHEN regexp_matches(check_name, '^(activities with impossible times|launches without a recorded kernel)')
                THEN SUM(value) > 0.01 * SUM(total)
            ELSE FALSE
        END AS is_severe
    FROM ledger
    WHERE
        NOT ok
        -- Other causes report these.
        AND check_name NOT IN (
            'time classified other', 'time without a layer or role', 'time in layers without a role', 'layers attributed',
            'layers of the model', 'model family'
        )
        AND NOT regexp_matches(check_name, '(?i)clock|before their launch|calls that returned')
    GROUP BY check_name
),
counted AS (
    SELECT
        COUNT(*) AS checks,
        list(check_name ORDER BY is_severe DESC, check_name)[:4] AS names,
        list(
            CASE
                WHEN value IS NULL OR total IS NULL THEN check_name
                ELSE format('{}: {:,} of {:,}', check_name, CAST(value AS BIGINT), CAST(total AS BIGINT))
            END
            ORDER BY is_severe DESC, check_name
        )[:4] AS told,
        COALESCE(BOOL_OR(is_severe), FALSE) AS is_severe
    FROM failed
),
every AS (
    SELECT COUNT(ok) AS checks, COUNT(*) FILTER (ok) AS holding FROM ledger
)
SELECT
    CASE WHEN every.checks > 0 THEN counted.checks > 0 END AS is_confirmed,
    CASE
        WHEN every.checks = 0 THEN 'nothing was checked'
        ELSE format('nothing is missing: {} checks of the ledger hold', every.holding)
    END AS reason,
    CASE
        WHEN counted.is_severe THEN format('Kernels are missing from the database: {} of the ledger failed', counted.names[1])
        ELSE format('{} of {} checks of the ledger failed', counted.checks, every.checks)
    END AS headline,
    list_transform(counted.told, lambda one: one || '.')
    || [CASE WHEN lost_records.pct > 0 THEN format('The profiler lost the records of {:.1f}% of the launches.', lost_records.pct) END] AS evidence,
    CASE
        WHEN lost_records.pct > 1 THEN 'Record fewer steps, or without stacks and shapes, so that the profiler loses no records'
        ELSE 'traceql run quality.ledger DB says what each check compares'
    END AS remedy,
    counted.is_severe, NOT counted.is_severe AS is_remark
FROM counted
CROSS JOIN every
CROSS JOIN lost_records
