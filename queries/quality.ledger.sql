-- One row per rank and check: what was in the file against what is in the database.
--
-- Failed checks come first. ok is NULL where there is nothing to prove.
-- @param  rank    BIGINT  = NULL   This rank only; all where NULL.
-- @param  failed  BOOLEAN = FALSE  Only checks that failed.
-- @column rank    BIGINT   Rank.
-- @column check_name   VARCHAR  What was checked.
-- @column value   BIGINT   What is in the database, or what was found.
-- @column total   BIGINT   What was in the file, or out of how much.
-- @column ok      BOOLEAN  Whether it is as it should be.
-- @column note    VARCHAR  What value and total are.
-- @chart  none
SELECT rank, check_name, value, total, ok, note
FROM ledger
WHERE
    ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
    AND (NOT $failed::BOOLEAN OR ok = FALSE)
ORDER BY ok IS DISTINCT FROM FALSE, rank, rowid
