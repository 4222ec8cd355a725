-- Side of the ridge of a roofline that work with an intensity (FLOPs per byte) is on: memory or compute; NULL if the intensity or a peak (1e9 bytes per second, 1e12 FLOPs per second) is unknown.
-- @kind   macro
-- @scope  run
CREATE OR REPLACE MACRO roofline_side(intensity, gbps, tflops) AS CASE
    WHEN intensity * gbps / 1000 < tflops THEN 'memory'
    WHEN intensity * gbps / 1000 >= tflops THEN 'compute'
END
