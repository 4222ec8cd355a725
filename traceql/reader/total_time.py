"""Whether the time of all slices together can be summed up."""

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt

_LARGEST_NS = 2.0**63


def require_total_fits(dur: npt.NDArray[np.int64]) -> None:
    """Raises TraceCorrupt if the durations, in ns, add up to more than 64 bits can hold."""
    if np.abs(dur.astype(np.float64)).sum() >= _LARGEST_NS:
        raise TraceCorrupt(
            "events last more than 292 years in all; one of their durations is wrong"
        )
