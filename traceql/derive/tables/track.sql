-- One row per process and thread (or device and stream) of a file.
-- @kind   source
-- @scope  rank
-- @column id                  BIGINT   Unique over all ranks.
-- @column rank                BIGINT   Rank that recorded it.
-- @column pid                 VARCHAR  Process id as in the file, as text.
-- @column tid                 VARCHAR  Thread id as in the file, as text.
-- @column process_name        VARCHAR  Name that the file gives the process.
-- @column thread_name         VARCHAR  Name that the file gives the thread.
-- @column process_labels      VARCHAR  Labels of the process, such as GPU 0; NULL where it has none.
-- @column process_sort_index  BIGINT   Its place among processes in a viewer.
-- @column thread_sort_index   BIGINT   Place of the thread in its process.
CREATE TABLE IF NOT EXISTS track (
    id BIGINT,
    rank BIGINT,
    pid VARCHAR,
    tid VARCHAR,
    process_name VARCHAR,
    thread_name VARCHAR,
    process_labels VARCHAR,
    process_sort_index BIGINT,
    thread_sort_index BIGINT
)
