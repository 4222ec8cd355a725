-- One row per entry that loading a file adds to the ledger: a check, or a fact that is only reported.
-- @kind   source
-- @scope  rank
-- @column rank        BIGINT   Rank that the remark is about.
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   What was found.
-- @column total       BIGINT   The whole that value is a part of.
-- @column ok          BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note        VARCHAR  Meaning of value and total.
CREATE TABLE IF NOT EXISTS load_check (
    rank BIGINT,
    check_name VARCHAR,
    value BIGINT,
    total BIGINT,
    ok BOOLEAN,
    note VARCHAR
)
