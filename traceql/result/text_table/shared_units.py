"""The units of a table: columns of one kind of quantity share a unit, so that they compare.

Points in time, durations and sizes are such kinds. Statistics of single events or tokens, such
as a mean, are a kind of their own where totals are much larger, and so are the parts of a fitted
curve that grow with tokens: where they are coefficients, they are tiny and yet count.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from traceql.util.units import Scale, Unit, display_unit, named_scale

_INSTANT = re.compile(r"(^|_)ts$")
_STATISTIC = re.compile(r"(^|_)(mean|median|min|max|per|p\d+|linear|context)(_|$)")
_CLEAR = 0.1  # of the unit: three digits are seen
_READABLE = 0.01
_MOST = 1e7  # a larger number is not read at a glance
_NEGLIGIBLE = 1e-5  # of the largest number: what is smaller needs no digits


@dataclass(frozen=True)
class _Column:
    name: str
    scale: Scale
    largest: float
    typical: float  # the median of what is not zero; 0 if everything is

    @property
    def kind(self) -> tuple[Scale, bool]:
        return self.scale, bool(_INSTANT.search(self.name))

    def is_seen(self, divisor: float, least: float) -> bool:
        return not self.typical or self.typical >= least * divisor


def shared_units(columns: Mapping[str, Sequence[float]]) -> dict[str, Unit]:
    """The unit of each column that has one, by the columns' names and finite numbers."""
    units = {
        name: unit
        for name, numbers in columns.items()
        if not named_scale(name) and (unit := display_unit(name, 0))
    }
    scaled = [_column(name, named_scale(name), numbers) for name, numbers in columns.items()]
    for alike in _by_kind([column for column in scaled if column]):
        for column, divisor in _divisors(alike):
            units[column.name] = column.scale.unit(column.name, divisor)
    return units


def shared_divisor(scale: Scale, numbers: Collection[float]) -> float:
    """The divisor of one unit for all these numbers."""
    column = _column("", scale, numbers)
    return _group_divisor([column]) if column else 1


def _column(name: str, scale: Scale | None, numbers: Collection[float]) -> _Column | None:
    if scale is None:
        return None
    sizes = [abs(number) for number in numbers if number]
    return _Column(name, scale, max(sizes, default=0), median_low(sizes) if sizes else 0)


def _by_kind(columns: Sequence[_Column]) -> list[list[_Column]]:
    kinds: dict[tuple[Scale, bool], list[_Column]] = {}
    for column in columns:
        kinds.setdefault(column.kind, []).append(column)
    return list(kinds.values())


def _divisors(columns: list[_Column]) -> Iterator[tuple[_Column, float]]:
    """The divisor of each column: one for all, or one for totals and one for statistics."""
    common = columns[0].scale.divisor(max(column.largest for column in columns))
    if all(column.is_seen(common, _CLEAR) for column in columns):
        yield from ((column, common) for column in columns)
        return
    statistics = [column for column in columns if _STATISTIC.search(column.name)]
    others = [column for column in columns if column not in statistics]
    for group, least in ((statistics, _CLEAR), (others, _READABLE)):
        is_zero = not any(column.typical for column in group)
        divisor = common if is_zero else _group_divisor(group, least)
        for column in group:
            fits = column.is_seen(divisor, _READABLE) or column in _negligible(columns)
            yield column, divisor if fits else column.scale.divisor(column.largest)


def _group_divisor(columns: Sequence[_Column], least: float = _READABLE) -> float:
    """That of the largest number, or a smaller one in which the other columns are seen."""
    largest = max(column.largest for column in columns)
    scale = columns[0].scale
    divisor = scale.divisor(largest)
    counting = [column for column in columns if column not in _negligible(columns)]
    for smaller in scale.below(divisor):
        if all(column.is_seen(divisor, least) for column in counting):
            break
        if largest >= _MOST * smaller:
            break
        divisor = smaller
    return divisor


def _negligible(columns: Sequence[_Column]) -> list[_Column]:
    """The columns with nothing but tiny parts of the largest number of all."""
    largest = max(column.largest for column in columns)
    return [column for column in columns if 0 < column.largest < _NEGLIGIBLE * largest]
