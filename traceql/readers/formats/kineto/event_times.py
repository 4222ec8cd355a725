"""The texts of times and durations in a JSON trace as nanoseconds."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto.decimal_ns import nanoseconds
from traceql.readers.formats.kineto.kineto_json import ABSENT, Event, Raw

Int64s = npt.NDArray[np.int64]
_ZERO = Raw(b"0")
_NO_DURATION = {b"", b"null"}


def times(events: Sequence[Event]) -> Int64s:
    """The start of each event, ns.

    Raises:
        TraceCorrupt: an event has no time, or a time that does not fit 64 bits.
    """
    try:
        return nanoseconds([e.ts for e in events])
    except TraceCorrupt:
        for event in events:
            if event.ts is ABSENT:
                name = str(event.name)[:60]
                raise TraceCorrupt(f'event "{name}" has no "ts"; the trace is damaged') from None
        raise


def durations(texts: Sequence[Raw]) -> Int64s:
    """The duration of each event, ns; 0 if the file has none."""
    try:
        return nanoseconds(texts)
    except TraceCorrupt:
        return nanoseconds([_ZERO if bytes(t) in _NO_DURATION else t for t in texts])
