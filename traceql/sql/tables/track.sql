-- One row per process and thread of a file, or per device and stream.
-- @kind   source
-- @schema main
-- @scope  rank
-- @column id                  BIGINT   Id of the track, unique across all ranks.
-- @column rank                BIGINT   Rank that recorded it; NULL for a host process.
-- @column pid                 VARCHAR  Process id as in the file, as text.
-- @column tid                 VARCHAR  Thread id as in the file, as text.
-- @column process_name        VARCHAR  Name that the file gives the process.
-- @column thread_name         VARCHAR  Name that the file gives the thread.
-- @column process_labels      VARCHAR  Labels of the process, such as GPU 0; NULL if it has none.
-- @column process_sort_index  BIGINT   Position of the process among the processes in a viewer.
-- @column thread_sort_index   BIGINT   Position of the thread in its process in a viewer.
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
