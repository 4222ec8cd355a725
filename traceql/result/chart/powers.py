"""Two logarithmic axes: which pixel a value is at, and which value is at a pixel."""

from dataclasses import dataclass
from math import ceil, floor, log10, pow


@dataclass(frozen=True)
class Powers:
    """The ends of both axes, and their lengths in pixels; pixels count from the top left."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float

    def across(self, value: float) -> float:
        return self.width * log10(value / self.x[0]) / log10(self.x[1] / self.x[0])

    def down(self, value: float) -> float:
        return self.height * (1 - log10(value / self.y[0]) / log10(self.y[1] / self.y[0]))

    def value_across(self, pixels: float) -> float:
        first, last = self.x
        return first * pow(last / first, pixels / self.width)

    def value_down(self, pixels: float) -> float:
        lowest, highest = self.y
        return lowest * pow(highest / lowest, 1 - pixels / self.height)


def powers_of_ten(ends: tuple[float, float]) -> list[float]:
    """The powers of ten between the ends of an axis; also twice and five times, if they are few."""
    between = range(floor(log10(ends[0])), ceil(log10(ends[1])))
    for factors in ((1,), (1, 2, 5)):
        values = [factor * 10.0**power for power in between for factor in factors]
        inside = [value for value in values if ends[0] <= value <= ends[1]]
        if len(inside) > 1:
            break
    return inside
