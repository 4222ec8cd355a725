"""Values of several sources as one, each of which can still be named."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from capture.experiment.yaml_document import Place

Source = Callable[[Place], str]  # says where the value of a place came from
_LOADS = ("batch", "concurrency")  # of which a grid has one


@dataclass
class Merged:
    """Values of several sources, and where each of them came from."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[Place, str] = field(default_factory=dict)

    def add(self, place: tuple[str, ...], value: Any, source: Source) -> None:
        """Sets a value; mappings are merged, everything else replaces what was there."""
        inner = self.values
        for key in place[:-1]:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        if place[:-1] == ("grid",) and place[-1] in _LOADS:
            for other in _LOADS:
                if other != place[-1] and self._is_older(("grid", other), source(place)):
                    inner.pop(other, None)
        key = place[-1]
        if isinstance(value, dict) and value and isinstance(inner.get(key, {}), dict):
            inner.setdefault(key, {})
            for name, one in value.items():
                self.add((*place, str(name)), one, source)
        else:
            inner[key] = value
        self.sources[place] = source(place)

    def _is_older(self, place: Place, source: str) -> bool:
        """Whether a value came from another source: one file with both is a mistake."""
        before = self.sources.get(place)
        return before is not None and before.split(",")[0] != source.split(",")[0]

    def source(self, place: Place, otherwise: str = "the plan") -> str:
        """Where a value came from, or the nearest one around it."""
        for length in range(len(place), 0, -1):
            if place[:length] in self.sources:
                return self.sources[place[:length]]
        return otherwise
