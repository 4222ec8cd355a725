"""One forward pass, as far as its layers were found."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from traceql.analysis.layers.stream import Int64s


@dataclass(frozen=True)
class Pass:
    """One forward pass; each of its layers has an anchor.

    Attributes:
        step: the step_id of its kernels; -1 if they have none.
        start: the first kernel of each layer; -1 if it is unknown.
        end: the kernel after the last one of each layer; -1 if it is unknown.
        joined: for each layer but the last one, whether the next one follows it directly.
        whole: whether no kernels are missing between its layers, as far as other passes tell.
        repeated: for each layer, whether another one has the same kernels. Then it is certain that
            none is missing or added.
        first: whether it is the first pass of the stream: the recording may have begun within it.
        last: whether it is the last pass of the stream: the recording may have ended within it.
        begins: whether the kernels before its first layer are there.
        ends: whether the kernels after its last layer are there.
    """

    step: int
    start: Int64s
    end: Int64s
    joined: npt.NDArray[np.bool_]
    whole: bool
    repeated: npt.NDArray[np.bool_]
    first: bool
    last: bool
    begins: bool
    ends: bool

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def known(self) -> Int64s:
        """The layers whose first and last kernel are known."""
        return np.flatnonzero((self.start >= 0) & (self.end >= 0))

    @cached_property
    def certain(self) -> "Pass":
        """The same pass, but only layers that another one confirms are known."""
        return replace(
            self,
            start=np.where(self.repeated, self.start, -1),
            end=np.where(self.repeated, self.end, -1),
        )

    def placed(self, place: Int64s) -> "Pass":
        """The same pass on a stream where kernel `n` is kernel `place[n]`."""
        return replace(
            self,
            start=np.where(self.start >= 0, place[self.start], -1),
            end=np.where(self.end >= 0, place[self.end], -1),
        )

    @property
    def from_begin(self) -> int:
        """The number of layers from the first one on that follow each other directly."""
        return self._chain(1) if self.begins else 0

    @property
    def from_end(self) -> int:
        """The number of layers up to the last one that follow each other directly."""
        return self._chain(-1) if self.ends else 0

    @cached_property
    def is_complete(self) -> bool:
        """Whether what precedes and follows its layers is there, and layers join in between.

        Unless it is whole, layers may be missing all the same.
        """
        return self.begins and self.ends and len(self.known) > 0 and bool(self.joined.all())

    def _chain(self, direction: int) -> int:
        known = np.zeros(len(self), np.bool_)
        known[self.known] = True
        known, joined = known[::direction], self.joined[::direction]
        return int(np.argmin(np.append(known & np.append(True, joined), False)))
