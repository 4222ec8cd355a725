-- One row per thing that loading a file has to say; part of the ledger.
-- @kind   source
-- @scope  rank
-- @column rank        BIGINT   Rank that it is about.
-- @column check_name  VARCHAR  What was checked.
-- @column value       BIGINT   What was found.
-- @column total       BIGINT   Out of how much.
-- @column ok          BOOLEAN  Whether it is as it should be; NULL where there is nothing to prove.
-- @column note        VARCHAR  Meaning of the numbers.
CREATE TABLE IF NOT EXISTS remark (
    rank BIGINT,
    check_name VARCHAR,
    value BIGINT,
    total BIGINT,
    ok BOOLEAN,
    note VARCHAR
)
