"""Flows (arrows between slices): their ends, and which ends belong to the same flow."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceql.readers.phases import FLOW_FINISHES
from traceql.readers.timeline import Timeline

Int64s = npt.NDArray[np.int64]
EndKind = tuple[str, object, object, object]  # phase, name, category, binding


@dataclass(frozen=True)
class Flows:
    """Ends of flows in this order: those that begin one, those in between, those that finish it."""

    ends: Timeline
    kinds: Sequence[EndKind]  # the distinct kinds of end
    kind: Int64s  # of each end, its position in `kinds`
    number: Int64s  # of each end, the number of its flow; ids of the file may repeat

    @property
    def finishes(self) -> int:
        """The number of ends that finish a flow."""
        finishes = np.array([phase == FLOW_FINISHES for phase, *_ in self.kinds], np.bool_)
        return int(finishes[self.kind].sum())


_NOTHING = np.empty(0, np.int64)
NO_FLOWS = Flows(Timeline(_NOTHING, _NOTHING, _NOTHING, _NOTHING), [], _NOTHING, _NOTHING)
