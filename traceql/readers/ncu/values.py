"""Gathers the values of metrics, in base units."""

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from traceql.readers.ncu.base_units import base_unit
from traceql.readers.ncu.decimal_marks import Mark, Number, looks_like_number, number
from traceql.readers.ncu.profile import METRIC, Remark

_BATCH_ROWS = 65_536
_SHOWN = 40  # letters of a value that is told
_SERIES = ("pmsampling:", "warpsampling:")
_NO_VALUE = ("n/a", "nan", "inf", "-inf")


def is_series(metric: str) -> bool:
    """Whether a metric is a series of samples over time, which is no value of the launch."""
    return metric.startswith(_SERIES)


class MetricRows:
    """Rows of traceql.readers.ncu.profile.METRIC.

    Attributes:
        count: the number of rows.
        unread: the texts of numbers that can be read in two ways or in none.
    """

    def __init__(self, mark: Mark | None) -> None:
        self._mark = mark
        self._columns: list[list[object]] = [[] for _ in METRIC]
        self._batches: list[pa.RecordBatch] = []
        self._rounded: Counter[float] = Counter()
        self._texts: Counter[tuple[str | None, str, str]] = Counter()  # section, metric, text
        self._measured: set[tuple[str | None, str]] = set()  # section and metric with numbers
        self.unread: list[str] = []
        self.count = 0

    def add(self, launch: int, section: str | None, metric: str, unit: str, text: str) -> None:
        """Adds a value as it is printed."""
        found = number(text, self._mark)
        if found or unit:
            self._measured.add((section, metric))
        if found is None and looks_like_number(text):
            self.unread.append(text)
        elif found is None and text and text.lower() not in _NO_VALUE:
            self._texts[section, metric, text] += 1
        self.add_value(launch, section, metric, unit, found or text)

    def add_value(
        self, launch: int, section: str | None, metric: str, unit: str, found: Number | str
    ) -> None:
        """Adds a value that is known to be a number or a text."""
        base = base_unit(unit)
        value = step = text = None
        if isinstance(found, Number):
            value, step = _scaled(found.value, base.factor), found.step * base.factor
            if base.name == "byte" and step > 1:
                self._rounded[step] += 1
        else:
            text = found or None
        row = (launch, section, metric, base.name or None, value, text, unit or None, step)
        for column, cell in zip(self._columns, row, strict=True):
            column.append(cell)
        self.count += 1
        if self.count % _BATCH_ROWS == 0:
            self._finish_batch()

    def table(self) -> pa.Table:
        """All rows."""
        self._finish_batch()
        return pa.Table.from_batches(self._batches, METRIC)

    def _finish_batch(self) -> None:
        """Packs the last rows, which as Python objects take ten times the memory."""
        self._batches.append(pa.record_batch(self._columns, schema=METRIC))
        self._columns = [[] for _ in METRIC]

    def no_numbers(self) -> Iterator[Remark]:
        """A remark if metrics that are measured have values that are no numbers at all."""
        odd = {key: n for key, n in self._texts.items() if key[:2] in self._measured}
        if odd:
            _, metric, text = next(iter(odd))
            yield Remark(
                "values of the profile that are no numbers", sum(odd.values()), self.count, False,
                f"values such as {text[:_SHOWN]} of {metric}, which are unknown; all values; print "
                "the profile again",
            )  # fmt: skip

    def rounded(self) -> Iterator[Remark]:
        """A remark if sizes are rounded, because the file has them in large units."""
        if self._rounded:
            worst = max(self._rounded)
            yield Remark(
                "rounded sizes of the profile", self._rounded.total(), self.count, None,
                f"values in bytes that are rounded, to {worst:,.0f} bytes at worst; all values; "
                "print the profile with --print-units base to have whole bytes",
            )  # fmt: skip


def _scaled(value: float, factor: float) -> float:
    """The product, without the binary rounding of decimal fractions: 4.1 Kbyte are 4100 bytes."""
    return round(value * factor, 9) if factor > 1 else value * factor
