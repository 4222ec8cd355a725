"""Times in the CSV files of Ascend as nanoseconds, exactly."""

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

_LARGEST = 2**62


def ns_of_us(text: object) -> int | None:
    """Microseconds, as text or a number, in nanoseconds; None if they are no time."""
    try:
        ns = Decimal(str(text)) * 1000
        whole = int(ns.to_integral_value(ROUND_HALF_EVEN)) if ns.is_finite() else _LARGEST
    except (InvalidOperation, ValueError):
        return None
    return whole if abs(whole) < _LARGEST else None
