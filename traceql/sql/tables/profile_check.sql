-- One row per statement about a file of Nsight Compute that reading it adds to the ledger.
-- @kind   source
-- @scope  run
-- @column file_id     BIGINT   File (profile_file.id).
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   What was found.
-- @column total       BIGINT   The whole that value is a part of.
-- @column ok          BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note        VARCHAR  Meaning of value and total.
CREATE TABLE IF NOT EXISTS profile_check (
    file_id BIGINT,
    check_name VARCHAR,
    value BIGINT,
    total BIGINT,
    ok BOOLEAN,
    note VARCHAR
)
