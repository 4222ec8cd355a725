"""The ends of flows: which are there, and what ties those of one flow together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.reader.arguments import joined_strings
from traceql.reader.coded import coded
from traceql.reader.kineto_json import Event, Raw, of_phases
from traceql.reader.timeline import Timeline, point_events
from traceql.reader.tracks import Tracks

Int64s = npt.NDArray[np.int64]
_ZERO = Raw(b"0")
_PHASES = "stf"
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


def flow_ends(by_phase: Mapping[str, Sequence[Event]], tracks: Tracks, slices: Timeline) -> Flows:
    """Without the ends that the profiler writes for launches whose flow never began."""
    events = of_phases(by_phase, _PHASES)
    kinds, kind = _kinds(by_phase)
    number = _flow_numbers(kinds, kind, joined_strings([e.id or _ZERO for e in events]))
    begins = np.array([phase == "s" for phase, *_ in kinds], np.bool_)[kind]
    kept = np.flatnonzero(np.isin(number, number[begins]))
    ends = point_events([events[i] for i in kept.tolist()], tracks, slices)
    return Flows(ends, kinds, kind[kept], number[kept])


def _kinds(by_phase: Mapping[str, Sequence[Event]]) -> tuple[list[_Kind], Int64s]:
    """The distinct kinds, and of each end its place among them."""
    kinds: list[_Kind] = []
    codes = [np.empty(0, np.int64)]
    for phase in _PHASES:
        events = by_phase.get(phase, [])
        found = list({(e.name, e.cat, e.bp) for e in events})
        code = np.zeros(len(events), np.int64)
        if len(found) > 1:  # profilers write one kind
            found, code = coded([(e.name, e.cat, e.bp) for e in events])
        codes.append(len(kinds) + code)
        kinds += [(phase, *kind) for kind in found]
    return kinds, np.concatenate(codes)


def _flow_numbers(kinds: Sequence[_Kind], kind: Int64s, ids: pa.Array) -> Int64s:
    """A number for each name, category and id, which together say which flow it is."""
    families, family = coded([(name, cat) for _, name, cat, _ in kinds])
    encoded: Int64s = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    encoded *= max(len(families), 1)
    return encoded + family[kind]
