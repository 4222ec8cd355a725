-- One row per rank and check: what was in the trace file compared with what is in the database.
--
-- Use it to see that no event was lost, and how much time was not classified or attributed. Failed
-- checks come first. ok is NULL if there is nothing to check: the row only says how something was found.
-- @param  rank    BIGINT  = NULL   Only this rank; all ranks by default.
-- @param  failed  BOOLEAN = FALSE  Only checks that failed.
-- @column rank    BIGINT   Rank.
-- @column check_name  VARCHAR  Name of the check.
-- @column value   BIGINT   What is in the database, or what was found.
-- @column total   BIGINT   What was in the file, or the whole that value is a part of.
-- @column ok      BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note    VARCHAR  Meaning of value and total.
-- @key    rank check_name ok value total note
-- @chart  none
-- @empty  all checks hold
SELECT rank, check_name, value, total, ok, note
FROM ledger
WHERE
    ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
    AND (NOT $failed::BOOLEAN OR ok = FALSE)
ORDER BY ok IS DISTINCT FROM FALSE, rank, rowid
