-- One row per file of Nsight Compute: hardware counters of single launches, without times on a common clock.
-- @kind   source
-- @scope  run
-- @column id          BIGINT   Number of the file in the database, from 0.
-- @column path        VARCHAR  Absolute path of the file when it was loaded.
-- @column sha256      VARCHAR  SHA-256 of the file as it is on disk, hexadecimal.
-- @column size_bytes  BIGINT   Size of the file as it is on disk, bytes.
-- @column page        VARCHAR  raw or details (pages of ncu --csv), or report (.ncu-rep).
CREATE TABLE IF NOT EXISTS profile_file (
    id BIGINT PRIMARY KEY,
    path VARCHAR,
    sha256 VARCHAR,
    size_bytes BIGINT,
    page VARCHAR
)
