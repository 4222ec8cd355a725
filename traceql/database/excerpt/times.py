"""Times as people write and read them."""

import re
from decimal import Decimal

from traceql.errors import TraceqlError

_PLACES = {"": 9, "s": 9, "ms": 6, "us": 3, "µs": 3, "μs": 3, "ns": 0}  # both letters mu
_TIME = re.compile(r"\s*(\d[\d,]*(?:\.\d*)?|\.\d+)\s*([a-zµμ]*)\s*", re.IGNORECASE)


def nanoseconds(text: str) -> int:
    """A time such as 12.5s, 12.5, 12,500 ms or 40us, in ns; without a unit, it is in seconds.

    Raises:
        TraceqlError: it is no time, or not a whole number of ns.
    """
    found = _TIME.fullmatch(text)
    places = _PLACES.get(found[2].lower()) if found else None
    if found is None or places is None:
        raise TraceqlError(
            f"'{text}' is not a time; write a number with s, ms, us or ns, such as 12.5s "
            "(without a unit, seconds)"
        )
    ns = Decimal(found[1].replace(",", "")).scaleb(places)
    if ns != int(ns):
        raise TraceqlError(f"'{text}' is not a whole number of ns")
    return int(ns)


def seconds(ns: int) -> str:
    """A time in seconds to the microsecond, with three decimals at least: 12.500 s."""
    whole, rest = divmod((ns + 500) // 1000, 10**6)
    digits = f"{rest:06d}".rstrip("0").ljust(3, "0")
    return f"{whole:,}.{digits} s"


def option(ns: int) -> str:
    """A time as an option takes it, exactly: 12.5s, 250us, 7ns."""
    if ns % 10**6 == 0:
        return f"{Decimal(ns).scaleb(-9).normalize():f}s"
    return f"{ns // 1000}us" if ns % 1000 == 0 else f"{ns}ns"
