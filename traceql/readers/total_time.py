"""Whether the time of all slices together can be summed up."""

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt

_LARGEST_NS = 2.0**63


def require_total_fits(dur: npt.NDArray[np.int64]) -> None:
    """Raises TraceCorrupt if the durations, in ns, add up to more than 64 bits can hold."""
    require_sum_fits(absolute_sum(dur))


def absolute_sum(dur: npt.NDArray[np.int64]) -> float:
    """The sum of the durations without their signs, ns; it cannot overflow."""
    return float(np.abs(dur.astype(np.float64)).sum())


def require_sum_fits(total: float) -> None:
    """Raises TraceCorrupt if a sum of durations, in ns, is more than 64 bits can hold."""
    if total >= _LARGEST_NS:
        raise TraceCorrupt(
            "events last more than 292 years in all; one of their durations is wrong"
        )
