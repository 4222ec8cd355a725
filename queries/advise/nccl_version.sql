-- One row per run: which NCCL it communicated with.
--
-- It is flagged if the loaded library is not the one that was installed with PyTorch, as
-- where a path of libraries brings an older one.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH found AS (
    SELECT
        ANY_VALUE(document ->> '$.versions.nccl') AS loaded,
        ANY_VALUE(COALESCE(
            document ->> '$.versions."nvidia-nccl-cu13"', document ->> '$.versions."nvidia-nccl-cu12"'
        )) AS installed
    FROM run
),
counted AS (
    SELECT loaded, installed, (SELECT COUNT(*) FROM collective) AS operations FROM found
),
judged AS (
    SELECT
        *,
        CASE
            WHEN loaded IS NULL THEN 'unknown'
            WHEN loaded <> installed THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'NCCL version' AS item,
    state,
    CASE
        WHEN loaded IS NULL THEN 'the recording does not name the version; record with traceql capture'
        ELSE concat(
            'NCCL ', loaded, CASE WHEN loaded <> installed THEN concat(', but ', installed, ' is installed') END,
            CASE WHEN operations = 0 THEN '; nothing was communicated' END
        )
    END AS evidence,
    CASE
        WHEN state = 'look' THEN 'Use the NCCL that PyTorch brings: take the other one out of LD_LIBRARY_PATH and VLLM_NCCL_SO_PATH.'
    END AS advice,
    CAST(NULL AS VARCHAR) AS query
FROM judged
