"""The arrows from calls to what they launched, which may be in a later window."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.tables import FLOW

Int64s = npt.NDArray[np.int64]
_Ends = tuple[Int64s, Int64s]  # indices of events, and their correlations


class Arrows:
    """Joins the calls and the activities of all windows so far by their correlation."""

    def __init__(self) -> None:
        self._calls: list[_Ends] = []  # sorted by correlation, each once
        self._waiting: _Ends = (np.empty(0, np.int64), np.empty(0, np.int64))

    def table(self, calls: _Ends, activities: _Ends) -> pa.Table:
        """An arrow from the outermost call with a correlation to each activity, as table FLOW.

        Args:
            calls: those of one window.
            activities: those of the same window; the ones without a call wait for later windows.
        """
        known, first = np.unique(calls[1], return_index=True)
        self._calls.append((calls[0][first], known))
        later = self._joined([self._calls[-1]], *self._waiting)
        now = self._joined(self._calls, *activities)
        missing = np.concatenate((_rest(later, self._waiting), _rest(now, activities)), axis=1)
        self._waiting = missing[0], missing[1]
        out, into = np.concatenate((later, now), axis=1)
        has_call = out >= 0
        return pa.table([pa.array(out[has_call]), pa.array(into[has_call])], schema=FLOW)

    def _joined(self, calls: Sequence[_Ends], index: Int64s, correlation: Int64s) -> Int64s:
        """For each activity its call, -1 if there is none, and its own index."""
        found = np.full(len(index), -1)
        for call, known in calls:
            if not len(known):
                continue
            place = np.minimum(np.searchsorted(known, correlation), len(known) - 1)
            joined = (found < 0) & (known[place] == correlation) & (correlation != 0)
            found[joined] = call[place[joined]]
        return np.stack((found, index))


def _rest(found: Int64s, activities: _Ends) -> Int64s:
    """The activities that have a correlation, but no call."""
    missing = (found[0] < 0) & (activities[1] != 0)
    return np.stack((activities[0][missing], activities[1][missing]))
