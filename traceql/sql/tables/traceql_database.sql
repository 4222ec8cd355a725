-- One row: what wrote this database.
-- @kind   source
-- @scope  run
-- @column schema_version  BIGINT   Version of the tables and columns.
-- @column written_by      VARCHAR  Version of traceql.
-- @column load_id         VARCHAR  Of the last load, which no other load has.
CREATE TABLE IF NOT EXISTS traceql_database (
    schema_version BIGINT,
    written_by VARCHAR,
    load_id VARCHAR
)
