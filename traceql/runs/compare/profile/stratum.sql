-- One row per grain and stratum: how many units it has, and how large they are.
-- @kind   result
-- @column grain       VARCHAR  kv or rows (member.grain).
-- @column stratum     VARCHAR  Name of the stratum.
-- @column phase       VARCHAR  Phase of its units.
-- @column units       BIGINT   Number of units.
-- @column typical     BIGINT   Number of them that are typical.
-- @column lanes       BIGINT   Lanes of a unit.
-- @column tokens      DOUBLE   Mean number of tokens of a unit; NULL if unknown.
-- @column requests    DOUBLE   Mean number of requests of a unit; NULL if unknown.
-- @column kv_tokens   DOUBLE   Mean number of tokens whose keys and values a unit reads; NULL if unknown.
-- @column graph_mode  VARCHAR  How its units use CUDA graphs; several with a comma between them.
-- @column gpu_ns      BIGINT   GPU spans of all its units, ns.
SELECT
    member.grain, member.stratum,
    ANY_VALUE(unit.phase) AS phase,
    COUNT(*) AS units,
    COUNT(*) FILTER (member.is_typical) AS typical,
    ANY_VALUE(unit.lanes) AS lanes,
    AVG(unit.tokens) AS tokens,
    AVG(unit.requests) AS requests,
    AVG(unit.kv_tokens) AS kv_tokens,
    STRING_AGG(DISTINCT unit.graph_mode, ', ' ORDER BY unit.graph_mode) AS graph_mode,
    CAST(SUM(unit.gpu_ns) AS BIGINT) AS gpu_ns
FROM member
INNER JOIN unit USING (unit_id)
GROUP BY member.grain, member.stratum
ORDER BY member.grain, member.stratum
