-- One row per launch that Nsight Compute profiled, and metric of it.
--
-- Sizes are in bytes, times in ns, rates per second, whatever the unit in the file. The table
-- kernel_match has the kernels of the trace that a launch stands for.
-- @kind   source
-- @schema main
-- @scope  run
-- @column launch     BIGINT   Launch (profiled_launch.id).
-- @column section    VARCHAR  Section of the details page, because labels there repeat; NULL on other pages.
-- @column metric     VARCHAR  Metric, such as dram__bytes_read.sum; on the details page a label, such as Duration.
-- @column unit       VARCHAR  Base unit of the value; NULL if it has none.
-- @column value      DOUBLE   Value in this unit; NULL if it is a text, or a number that can be read in two ways.
-- @column text       VARCHAR  What is in the file if it was not read as a number; NULL otherwise.
-- @column file_unit  VARCHAR  Unit in the file; NULL if it has none.
-- @column step       DOUBLE   Place value of the last digit in the file, in this unit: 1000 if 0.000004 Gbyte are printed; 0 if the value is exact. NULL without a value.
CREATE TABLE IF NOT EXISTS kernel_metric (
    launch BIGINT,
    section VARCHAR,
    metric VARCHAR,
    unit VARCHAR,
    value DOUBLE,
    text VARCHAR,
    file_unit VARCHAR,
    step DOUBLE
)
