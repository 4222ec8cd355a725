-- One row per run and number that users see: latencies of requests and tokens per second.
--
-- A latency is of the pass without the profiler if every run with the latency has that pass.
-- @column side    VARCHAR  base or new.
-- @column run     BIGINT   Number of the run in its side, from 0.
-- @column metric  VARCHAR  As in profile_latency.
-- @column value   DOUBLE   The number: ns, or tokens per second.
-- @column source  VARCHAR  unprofiled or profiled: the pass that it is from.
SELECT side, run, metric, value, source
FROM profile_latency
QUALIFY source = MIN(source) OVER (PARTITION BY metric)
ORDER BY ALL
