-- One row per engine iteration of the run, or of one data-parallel replica: its steps on all ranks as one.
--
-- Times are sums over lanes: a lane is a device of a rank. Ranks whose step of an iteration is of
-- another phase do not belong together, as replicas that were matched by nothing but their position.
-- @kind   step
-- @column unit_id      BIGINT   Id of the unit.
-- @column phase        VARCHAR  prefill, decode, mixed or idle; unknown if the steps have none.
-- @column rows_to      BIGINT   Rows that its kernels run, padding included, rounded up: to a multiple of 8 as vLLM's graphs, beyond 256 to a power of two; NULL if unknown.
-- @column kv_from      BIGINT   Mean number of tokens in the KV cache of a request, rounded down to a power of two; NULL if unknown.
-- @column tokens       BIGINT   Tokens processed; NULL if unknown.
-- @column requests     BIGINT   Requests in the batch; NULL if unknown.
-- @column kv_tokens    BIGINT   Tokens whose keys and values are read, of all requests; NULL if unknown.
-- @column graph_mode   VARCHAR  full, piecewise or none (step.graph_mode).
-- @column lanes        BIGINT   Lanes with kernels.
-- @column is_complete  BOOLEAN  Whether it has all lanes that units of the run have; the first or last one may lack ranks.
-- @column gpu_ns       BIGINT   GPU spans of its steps (step.gpu_dur), summed over lanes, ns.
-- @column before_ns    BIGINT   Idle time of the lanes right before those spans, ns.
-- @column step_ids     BIGINT[] Its steps (step.step_id).
WITH lane AS (
    SELECT step_id, COUNT(DISTINCT device) AS lanes, SUM(ns) AS gpu_ns
    FROM step_time
    GROUP BY step_id
),
before AS (
    SELECT gap.step_id, SUM(gap.dur) AS ns
    FROM gap
    INNER JOIN step USING (step_id)
    WHERE gap.ts + gap.dur <= step.gpu_ts
    GROUP BY gap.step_id
),
one_step AS (
    SELECT
        step.step_id, aligned_step.iteration,
        COALESCE(layout.dp_rank, 0) AS replica,
        COALESCE(step.phase, 'unknown') AS phase,
        COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS rows_run,
        step_tokens.tokens,
        step_tokens.context_requests + step_tokens.generation_requests AS requests,
        step_tokens.context_kv_tokens + step_tokens.generation_kv_tokens AS kv_tokens,
        step.graph_mode, lane.lanes, lane.gpu_ns,
        COALESCE(before.ns, 0) AS before_ns
    FROM lane
    INNER JOIN step ON lane.step_id = step.step_id
    INNER JOIN aligned_step ON lane.step_id = aligned_step.step_id
    LEFT JOIN layout ON step.rank = layout.rank
    LEFT JOIN step_tokens ON lane.step_id = step_tokens.step_id
    LEFT JOIN before ON lane.step_id = before.step_id
),
together AS (
    SELECT
        iteration, replica, phase,
        MAX(rows_run) AS rows_run,
        MAX(tokens) AS tokens,
        MAX(requests) AS requests,
        MAX(kv_tokens) AS kv_tokens,
        MAX(graph_mode) AS graph_mode,
        SUM(lanes) AS lanes,
        SUM(gpu_ns) AS gpu_ns,
        SUM(before_ns) AS before_ns,
        LIST(step_id ORDER BY step_id) AS step_ids
    FROM one_step
    GROUP BY iteration, replica, phase
)
SELECT
    ROW_NUMBER() OVER (ORDER BY iteration, replica, phase) - 1 AS unit_id,
    phase,
    CAST(
        CASE
            WHEN rows_run <= 2 THEN rows_run
            WHEN rows_run <= 4 THEN 4
            WHEN rows_run <= 256 THEN 8 * CEIL(rows_run / 8)
            ELSE 2 ** CEIL(LOG2(rows_run))
        END AS BIGINT
    ) AS rows_to,
    CAST(2 ** FLOOR(LOG2(kv_tokens / NULLIF(requests, 0))) AS BIGINT) AS kv_from,
    tokens, requests, kv_tokens, graph_mode,
    CAST(lanes AS BIGINT) AS lanes,
    lanes = MAX(lanes) OVER () AS is_complete,
    CAST(gpu_ns AS BIGINT) AS gpu_ns,
    CAST(before_ns AS BIGINT) AS before_ns,
    step_ids
FROM together
ORDER BY unit_id
