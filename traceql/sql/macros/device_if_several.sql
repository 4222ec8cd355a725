-- Number of a device, in rows of ranks; NULL if all rows of its rank are of the same device.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO device_if_several(rank, device) AS CASE
    WHEN MIN(device) OVER (PARTITION BY rank) <> MAX(device) OVER (PARTITION BY rank) THEN device
END
