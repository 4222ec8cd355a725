"""How long the roles of a model take on one rank, in the form that all sources of times give."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from traceql.plan.advise.load import Load

EXPERTS = frozenset(("experts_gate_up", "experts_down"))
FIRST_STAGE = frozenset(("embed",))
LAST_STAGE = frozenset(("final_norm", "lm_head", "sample"))
EVERY_STAGE = frozenset(("input_prep", "other", "copies", "other_step"))


@dataclass(frozen=True)
class RoleTimes:
    """One step of all layers of the model.

    Attributes:
        ns: by role; idle time has the role idle, copies the role copies.
        least_ns: the same at the peaks of the GPU; 0 where there is nothing to read or compute.
        unknown: the parts whose time is not known and is missing.
    """

    ns: Mapping[str, float]
    least_ns: Mapping[str, float]
    unknown: tuple[str, ...] = ()


class Evidence(Protocol):
    """Where the times of roles come from."""

    @property
    def is_recorded(self) -> bool:
        """Whether the times follow from a recording, not from defaults."""
        ...

    @property
    def recorded_tp(self) -> int | None:
        """The tensor-parallel size of the recording."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """Whether the asked GPU is another one than that of the recording."""
        ...

    @property
    def error_pct(self) -> float:
        """Error of the method on the recorded decode steps; 0 if it could not be checked."""
        ...

    def times(self, load: Load, tp: int) -> RoleTimes | None:
        """The times on one of `tp` ranks; None if this source does not have them."""
        ...
