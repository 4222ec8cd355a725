"""Units for display: tables hold ns and bytes, people read ms and MiB."""

import re
from dataclasses import dataclass

_TIME = re.compile(r"^(.*_)?(ts|dur)$|(^|_)ns$")
_BYTES = re.compile(r"_bytes$|^bytes$")
# From which value on a unit is used, what it divides by, its name. Seconds would hide what matters
# in a trace of seconds.
_TIMES = ((1e11, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs"), (0, 1, "ns"))
_SIZES = ((2**30, 2**30, "GiB"), (2**20, 2**20, "MiB"), (2**10, 2**10, "KiB"), (0, 1, "B"))
_OTHERS = (  # ending of a column's name, what it divides by, name of the unit
    ("_pct", 1, "%"),
    ("_gbps", 1, "GB/s"),
    ("_mhz", 1, "MHz"),
    ("_mw", 1e3, "W"),
)


@dataclass(frozen=True)
class Unit:
    """How a column is shown: its values are divided by `divisor`."""

    name: str  # of the column, without its unit
    symbol: str
    divisor: float
    decimals: int = 3

    @property
    def title(self) -> str:
        return f"{self.name} {self.symbol}"


def display_unit(column: str, largest: float) -> Unit | None:
    """The unit that suits a column's largest value; None for what has no unit.

    Which quantity it is follows from the name: ts, dur and *_ns are ns, *_bytes bytes.
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
