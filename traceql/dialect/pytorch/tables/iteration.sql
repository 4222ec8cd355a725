-- One row per engine iteration of one rank: where it begins, from the best evidence in the trace.
--
-- vLLM's execute_... annotations; if there are none, ProfilerStep#N; if there are none either, the
-- whole trace is one step.
-- @kind   scratch
-- @scope  rank
-- @needs  event_kind, slice
-- @column step_id     BIGINT                                   Number across all ranks, from 0.
-- @column number      BIGINT                                   Position among the iterations of its rank, from 0.
-- @column rank        BIGINT                                   Rank that ran it.
-- @column name        VARCHAR                                  The annotation; NULL if the trace is one step.
-- @column ts          BIGINT                                   Start on the host, ns since trace.base_time_ns.
-- @column dur         BIGINT                                   Duration on the host, ns.
-- @column source      VARCHAR                                  execute_context, ProfilerStep or trace.
-- @column context     STRUCT(requests VARCHAR, tokens VARCHAR)  Requests and tokens of the annotation's context part, as text.
-- @column generation  STRUCT(requests VARCHAR, tokens VARCHAR)  Requests and tokens of its generation part, as text.
WITH annotation AS (
    SELECT
        rank,
        id,
        name,
        ts,
        dur,
        CASE
            WHEN regexp_matches(name, '^execute_(\d+_)?context_\d+\(.*\)_generation_\d+\(') THEN 1
            WHEN regexp_matches(name, '^ProfilerStep#\d+$') THEN 2
        END AS evidence
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'annotation'
),
whole_trace AS (
    SELECT
        rank,
        MIN(id) AS id,
        NULL AS name,
        MIN(ts) AS ts,
        MAX(ts + dur) - MIN(ts) AS dur,
        3 AS evidence
    FROM slice
    GROUP BY rank
),
candidate AS (
    SELECT * FROM annotation WHERE evidence IS NOT NULL
    UNION ALL
    SELECT * FROM whole_trace
),
chosen AS (
    SELECT *
    FROM candidate
    QUALIFY evidence = MIN(evidence) OVER (PARTITION BY rank)
)
SELECT
    ROW_NUMBER() OVER (ORDER BY rank, ts, id) - 1 AS step_id,
    ROW_NUMBER() OVER (PARTITION BY rank ORDER BY ts, id) - 1 AS number,
    rank,
    name,
    ts,
    dur,
    CASE evidence WHEN 1 THEN 'execute_context' WHEN 2 THEN 'ProfilerStep' ELSE 'trace' END AS source,
    regexp_extract(name, 'context_(\d+)\((?:sq)?(\d+)', ['requests', 'tokens']) AS context,
    regexp_extract(name, 'generation_(\d+)\((?:sq)?(\d+)', ['requests', 'tokens']) AS generation
FROM chosen
