"""Queries whose answers are the same for all recordings of a run, whichever profiler made them."""

# Times are those since the first kernel of the rank, because the formats have other time bases.
FIRST = "(SELECT MIN(ts) FROM kernel AS first WHERE first.rank = {0}.rank)"
STEPS = f"""
    SELECT * EXCLUDE (step_id) REPLACE (
        ts - {FIRST.format("step")} AS ts, gpu_ts - {FIRST.format("step")} AS gpu_ts
    )
    FROM step
    ORDER BY rank, number
"""
GAPS = f"""
    SELECT gap.rank, gap.device, gap.ts - {FIRST.format("gap")} AS ts, gap.dur, cause, number
    FROM gap
    LEFT JOIN step USING (step_id)
    ORDER BY ALL
"""
