"""What queries of a lake need of `traceql.runs.compare` to say how sure a difference is."""

import pyarrow as pa

from traceql.runs.compare.shift import LEAST_RUNS, interval_place

INTERVALS = "interval_place"
MOST_RUNS = 20  # of a group; the exact interval of more takes long to count


def interval_places() -> pa.Table:
    """The table interval_place: one row per number of runs of two groups.

    Its column place is that, from 1, of the pairwise difference at which the interval of the
    Hodges-Lehmann estimate begins; it ends as many places before the last one.
    """
    counts = range(LEAST_RUNS, MOST_RUNS + 1)
    rows = [
        {"base_runs": base, "new_runs": new, "place": interval_place(base, new)}
        for base in counts
        for new in counts
    ]
    return pa.Table.from_pylist(rows)
