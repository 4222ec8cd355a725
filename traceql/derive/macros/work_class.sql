-- What a GPU activity of this category does: compute, comm (communicates) or copy.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO work_class(category) AS CASE
    WHEN category = 'collective' THEN 'comm'
    WHEN category IN ('memcpy', 'memset') THEN 'copy'
    ELSE 'compute'
END
