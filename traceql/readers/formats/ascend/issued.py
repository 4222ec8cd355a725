"""Joins the operators of PyTorch and the tasks that they asked for, by the arrows between them."""

from bisect import bisect_right
from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.dialects.ascend.vocabulary import Category
from traceql.readers.formats.ascend.arrows import OF_OPERATORS, by_start, ends
from traceql.readers.formats.ascend.events import AscendEvents
from traceql.readers.nesting import Nesting
from traceql.readers.phases import FLOW_BEGINS, FLOW_FINISHES

Int64s = npt.NDArray[np.int64]
_LIBRARY = "::"  # in the names of operators, such as aten::mm, but not in those of their parts
_NONE = -1


def external_ids(events: AscendEvents, nested: Nesting) -> pa.Array:
    """A number that an operator shares with the tasks that it asked for; NULL for all others."""
    found = np.full(len(events), _NONE, np.int64)
    asked = _operators(events, nested)
    at = events.of(Category.KERNEL, Category.MEMCPY, Category.COMMUNICATION)
    begun = by_start(events, np.flatnonzero(at))
    for number, place in ends(events, OF_OPERATORS, FLOW_FINISHES):
        task, operator = begun.get(place), asked.get(number)
        if task is not None and operator is not None:
            found[task] = found[operator] = operator
    return pa.array(found, mask=found == _NONE)


def _operators(events: AscendEvents, nested: Nesting) -> dict[int, int]:
    """The operator in which each arrow begins: of a library if possible, else the innermost one."""
    slices, parent = events.parsed.slices, nested.parent.to_pylist()
    operators = events.of(Category.OPERATOR)
    by_track: defaultdict[int, list[int]] = defaultdict(list)
    for index in np.lexsort((-slices.dur, slices.ts)).tolist():
        if operators[index]:
            by_track[int(slices.track[index])].append(index)
    starts = {track: slices.ts[members].tolist() for track, members in by_track.items()}
    end_ts = slices.ts + slices.dur
    found = {}
    for number, (track, ts) in ends(events, OF_OPERATORS, FLOW_BEGINS):
        place = bisect_right(starts.get(track, []), ts) - 1
        around = by_track[track][place] if place >= 0 else None
        inside = []
        while around is not None:
            if operators[around] and end_ts[around] >= ts:
                inside.append(around)
            around = parent[around]
        named = (index for index in inside if _LIBRARY in events.names[index])
        if inside:
            found[number] = next(named, inside[0])
    return found
