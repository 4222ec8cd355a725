"""A JSON trace of any size, made by repeating a real one, each time later and with ids of its own.

    python benchmarks/large_traces.py TRACE.json.gz LARGE.json [--copies 7]

What a database of the large one says is known in advance: so many times the slices, kernels, arrows
and time of the small one.
"""

import argparse
import gzip
import re
from decimal import Decimal
from pathlib import Path

# Times in µs and ids that must differ between copies; a flow's id is the only "id" of an event.
_CHANGED = re.compile(r'("ts"|"correlation"|"External id"|"id"): ?(-?\d+(?:\.\d+)?)')
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_ID_STEP = 1 << 24
_PAUSE_US = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("large", type=Path)
    parser.add_argument("--copies", type=int, default=7)
    options = parser.parse_args()
    repeat(options.trace, options.large, options.copies)
    print(f"{options.large}: {options.large.stat().st_size / 1e9:.2f} GB")


def repeat(trace: Path, large: Path, copies: int) -> None:
    """Writes so many copies of all events of a trace, one after the other in time."""
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt") as file:
        text = file.read()
    begin = _EVENTS.search(text)
    assert begin
    end = text.rindex("]")
    pieces = _CHANGED.split(text[begin.end() : end])
    fixed, kinds, values = pieces[0::3], pieces[1::3], pieces[2::3]
    period = _period(kinds, values)
    with large.open("w") as out:
        out.write(text[: begin.end()])
        for copy in range(copies):
            out.write("," * (copy > 0))
            changed = [_changed(k, v, copy, period) for k, v in zip(kinds, values, strict=True)]
            out.write("".join(a + b for a, b in zip(fixed, [*changed, ""], strict=True)))
        out.write(text[end:])


def _period(kinds: list[str], values: list[str]) -> Decimal:
    """The time from one copy to the next, µs; copies do not overlap by more than an open slice."""
    times = [Decimal(v) for k, v in zip(kinds, values, strict=True) if k == '"ts"' and v != "0"]
    return max(times) - min(times) + _PAUSE_US


def _changed(kind: str, value: str, copy: int, period: Decimal) -> str:
    if kind == '"ts"':
        return f"{kind}: {Decimal(value) + period * copy if copy else value}"
    return f"{kind}: {int(value) + _ID_STEP * copy if value != '0' else value}"


if __name__ == "__main__":
    main()
