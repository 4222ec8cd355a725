"""The ends of flows: which are there, and what ties those of one flow together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.reader.arguments import joined_strings
from traceql.reader.coded import coded
from traceql.reader.kineto_json import Event, Raw
from traceql.reader.timeline import Timeline, point_events
from traceql.reader.tracks import Tracks

Int64s = npt.NDArray[np.int64]
_ZERO = Raw(b"0")
_Kind = tuple[str, object, object, object]  # phase, name, category, binding


@dataclass(frozen=True)
class Flows:
    """Flow ends in the file's order."""

    ends: Timeline
    kinds: Sequence[_Kind]  # the distinct ones
    kind: Int64s  # of each end, its place in `kinds`
    number: Int64s  # the same for the ends of one flow, whatever its id in the file

    @property
    def finishes(self) -> int:
        """How many ends finish a flow."""
        return sum(int((self.kind == n).sum()) for n, k in enumerate(self.kinds) if k[0] == "f")


def flow_ends(events: Sequence[Event], tracks: Tracks, slices: Timeline) -> Flows:
    """Without the ends that the profiler writes for launches whose flow never began."""
    kinds, kind = coded([(e.ph, e.name, e.cat, e.bp) for e in events])
    number = _flow_numbers(kinds, kind, joined_strings([e.id or _ZERO for e in events]))
    begins = np.array([phase == "s" for phase, *_ in kinds], np.bool_)[kind]
    kept = np.flatnonzero(np.isin(number, number[begins]))
    ends = point_events([events[i] for i in kept.tolist()], tracks, slices)
    return Flows(ends, kinds, kind[kept], number[kept])


def _flow_numbers(kinds: Sequence[_Kind], kind: Int64s, ids: pa.Array) -> Int64s:
    """A number for each name, category and id, which together say which flow it is."""
    families, family = coded([(name, cat) for _, name, cat, _ in kinds])
    encoded: Int64s = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    encoded *= max(len(families), 1)
    return encoded + family[kind]
