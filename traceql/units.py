"""Units for display: tables hold ns and bytes, people read ms and MiB."""

import re
from dataclasses import dataclass

_TIME = re.compile(r"^(.*_)?(ts|dur)$|(^|_)ns$")
_BYTES = re.compile(r"_bytes$|^bytes$")
# The value from which a unit is used, its divisor, its name. Seconds are used late, because
# milliseconds are what matters in a trace of a few seconds.
_TIMES = ((1e11, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs"), (0, 1, "ns"))
_SIZES = ((2**30, 2**30, "GiB"), (2**20, 2**20, "MiB"), (2**10, 2**10, "KiB"), (0, 1, "B"))
_OTHERS = (  # ending of the column's name, divisor, name of the unit
    ("_pct", 1, "%"),
    ("_gbps", 1, "GB/s"),
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


def display_unit(column: str, largest: float) -> Unit | None:
    """The unit that suits a column's largest value; None if the column has no unit.

    The quantity follows from the column's name: ts, dur and *_ns are ns, *_bytes are bytes.
    """
    if _TIME.search(column):
        return _unit("time" if column == "ns" else column.removesuffix("_ns"), largest, _TIMES)
    if _BYTES.search(column):
        return _unit(column.removesuffix("_bytes"), largest, _SIZES)
    for ending, divisor, symbol in _OTHERS:
        if column.endswith(ending):
            return Unit(column.removesuffix(ending), symbol, divisor, 1)
    return None


def _unit(name: str, largest: float, units: tuple[tuple[float, float, str], ...]) -> Unit:
    _, divisor, symbol = next(unit for unit in units if abs(largest) >= unit[0])
    return Unit(name, symbol, divisor)
