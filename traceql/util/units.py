"""Units for display: tables hold ns and bytes, people read ms and MiB."""

import re
from dataclasses import dataclass

_TIME = re.compile(r"^(.*_)?(ts|dur)$|(^|_)ns$")
_BYTES = re.compile(r"_bytes$|^bytes$")
_ENDING = re.compile(r"_(ns|bytes)$")
_OTHERS = (  # ending of the column's name, divisor, name of the unit
    ("_pct", 1, "%"),
    ("_gbps", 1, "GB/s"),
    ("_tflops", 1, "TFLOP/s"),
    ("_mhz", 1, "MHz"),
    ("_mw", 1e3, "W"),
)


@dataclass(frozen=True)
class Unit:
    """The unit in which a column is shown: its values are divided by `divisor`."""

    name: str  # the column's name without its unit
    symbol: str
    divisor: float
    decimals: int = 3

    @property
    def title(self) -> str:
        return f"{self.name} {self.symbol}"


@dataclass(frozen=True)
class Scale:
    """The units of a quantity, the largest first: from which value, divisor and symbol of each."""

    quantity: str
    steps: tuple[tuple[float, float, str], ...]

    def divisor(self, largest: float) -> float:
        """The divisor of the unit that suits a value."""
        return next(divisor for least, divisor, _ in self.steps if abs(largest) >= least)

    def below(self, divisor: float) -> list[float]:
        """The divisors of the smaller units, the largest first."""
        return [smaller for _, smaller, _ in self.steps if smaller < divisor]

    def text(self, value: float) -> str:
        """A value with its unit, such as 1.5 GiB."""
        divisor = self.divisor(value)
        return f"{value / divisor:.1f} {self.symbol(divisor)}"

    def symbol(self, divisor: float) -> str:
        return next(symbol for _, each, symbol in self.steps if each == divisor)

    def unit(self, column: str, divisor: float) -> Unit:
        """The unit with that divisor, for a column of this quantity."""
        name = self.quantity if column in ("ns", "bytes") else _ENDING.sub("", column)
        return Unit(name, self.symbol(divisor), divisor)


# Seconds are used late, because milliseconds are what matters in a trace of a few seconds.
TIME = Scale("time", ((1e11, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs"), (0, 1, "ns")))
SIZE = Scale(
    "bytes", ((2**30, 2**30, "GiB"), (2**20, 2**20, "MiB"), (2**10, 2**10, "KiB"), (0, 1, "B"))
)


def named_scale(column: str) -> Scale | None:
    """The scale of a column by its name: ts, dur and *_ns are ns, *_bytes are bytes."""
    if _TIME.search(column):
        return TIME
    return SIZE if _BYTES.search(column) else None


def display_unit(column: str, largest: float) -> Unit | None:
    """The unit that suits a column's largest value; None if the column has no unit."""
    if scale := named_scale(column):
        return scale.unit(column, scale.divisor(largest))
    for ending, divisor, symbol in _OTHERS:
        if column.endswith(ending):
            return Unit(column.removesuffix(ending), symbol, divisor, 1)
    return None
