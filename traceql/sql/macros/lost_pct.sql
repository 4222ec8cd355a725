-- Lost time of all devices in percent of the steps without the profiler (with it, if only that is known).
--
-- scale is the row of table time_scale.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO lost_pct(ns, scale) AS
    100 * ns * COALESCE(struct_extract(scale, 'scale'), 1)
    / (struct_extract(scale, 'step_ns') * struct_extract(scale, 'devices') * struct_extract(scale, 'steps'))
