-- One row per communicator and rank that others waited for, from each rank's own device, by wait time.
--
-- Use it where not all ranks of the run are loaded: the tasks that a communication operation of an
-- Ascend device consists of name the peer that each of them waits for. late_place counts in the
-- communicator; late_rank is the same rank in the run, where its ranks are known.
-- @param  limit        INTEGER = 20    Maximum number of rows.
-- @param  rank         BIGINT  = NULL  Only operations of this rank; all by default.
-- @column rank         BIGINT   Rank that waited.
-- @column group_ranks  VARCHAR  Ranks of the communicator that are loaded or named, as text.
-- @column group_size   BIGINT   Number of ranks in the communicator; NULL if unknown.
-- @column late_place   BIGINT   Number of the late rank in the communicator, from 0.
-- @column late_rank    BIGINT   Rank in the run; NULL if the ranks of the communicator are not known.
-- @column operations   BIGINT   Operations in which it was the late rank.
-- @column wait_ns      BIGINT   Wait time in them, ns.
-- @column share_pct    DOUBLE   Percent of the wait time of all operations here.
-- @column longest_ns   BIGINT   Longest wait for that rank on one plane, ns.
-- @column ts           BIGINT   Start of the operation with that wait, ns since the run's first event.
-- @key    rank late_place late_rank wait_ns share_pct operations longest_ns
-- @empty  no device recorded which rank it waited for; only Ascend profiles of level 1 and above do
-- @chart  bar x=wait_ns y=rank color=late_place
-- @title  Late ranks, as each device recorded them
WITH waited AS (
    SELECT
        collective.*, kernel.ts, kernel.dur,
        operation_plane.wait_ns AS plane_wait_ns,
        operation_plane.peer_ns
    FROM collective
    INNER JOIN operation_plane USING (kernel_id)
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    WHERE
        operation_plane.late_place IS NOT NULL
        AND ($rank::BIGINT IS NULL OR collective.rank = $rank::BIGINT)
)
SELECT
    waited.rank,
    ANY_VALUE(waited.group_ranks) AS group_ranks,
    ANY_VALUE(waited.group_size) AS group_size,
    waited.late_place,
    ANY_VALUE(waited.late_rank) AS late_rank,
    COUNT(*) AS operations,
    CAST(SUM(waited.plane_wait_ns) AS BIGINT) AS wait_ns,
    100.0 * SUM(waited.plane_wait_ns) / NULLIF(SUM(SUM(waited.plane_wait_ns)) OVER (), 0) AS share_pct,
    MAX(waited.peer_ns) AS longest_ns,
    arg_max(waited.ts, waited.peer_ns) AS ts
FROM waited
GROUP BY waited.rank, waited.communicator_id, waited.late_place
ORDER BY wait_ns DESC, waited.rank, waited.communicator_id, waited.late_place
LIMIT $limit::INTEGER
