"""Places for the names of points, so that no name covers a point, a line or another name.

The names of points that are close together are written below each other, in the order of the
points, so that the lines from points to names do not cross.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LETTER = 5.7  # pixels: width of a letter
_LINE = 13  # pixels: height of a name
_GAP = 2  # pixels on each side of a name
_CLOSE = 14  # pixels between the middles of points whose names stand together
_BESIDE, _AWAY = 4, (12, 25, 45, 70)  # pixels from a circle to its name, without and with a line
_SHIFTS = 16  # half lines that names may stand above or below their points
_DETOUR, _LONG_DETOUR = 40, 400  # pixels worth going for a line that crosses no line; no name
_SAMPLES = 24  # of a line
_DOT = 1.5  # pixels: half the side of the box around a sample

Boxes = npt.NDArray[np.float64]  # one per row
_Group = list[int]  # numbers of points, from the top


class Box(NamedTuple):
    """A rectangle in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Point:
    """A circle and its name; the names of heavier points are placed first."""

    x: float
    y: float
    radius: float
    name: str
    weight: float

    @property
    def box(self) -> Box:
        r = self.radius
        return Box(self.x - r, self.y - r, self.x + r, self.y + r)

    def distance(self, other: "Point | Place") -> float:
        return hypot(self.x - other.x, self.y - other.y)


@dataclass(frozen=True)
class Place:
    """Where a name begins if it is right of its point, or ends if it is left; half its height."""

    x: float
    y: float
    is_right: bool

    def box(self, name: str) -> Box:
        width = len(name) * LETTER
        left = self.x if self.is_right else self.x - width
        return Box(left - _GAP, self.y - _LINE / 2, left + width + _GAP, self.y + _LINE / 2)

    def needs_line(self, point: Point) -> bool:
        return point.distance(self) > point.radius + 2 * _BESIDE


def places(
    points: Sequence[Point], area: Box, lines: Sequence[Box], texts: Sequence[Box]
) -> list[Place | None]:
    """The place of each point's name inside the area; None where there is no room for it.

    Args:
        lines: what no name may cover.
        texts: the same, which no line to a name should cross if there is another place.
    """
    found: dict[int, Place] = {}
    circles, drawn = boxes([point.box for point in points]), boxes(texts)
    for group in _groups(points):
        others = np.concatenate([np.delete(circles, group, axis=0), drawn])
        covered = np.concatenate([boxes(lines), circles, drawn])
        chosen = _best(points, group, area, boxes(lines), others, covered)
        for number, place in chosen.items():
            point, found[number] = points[number], place
            drawn = np.concatenate([drawn, boxes([place.box(point.name)]), _line(point, place)])
    return [found.get(number) for number in range(len(points))]


def _groups(points: Sequence[Point]) -> list[_Group]:
    """The points in groups of close ones, the group with the heaviest point first."""
    groups: list[_Group] = []
    for number, point in enumerate(points):
        near = [g for g in groups if any(point.distance(points[n]) < _CLOSE for n in g)]
        groups = [group for group in groups if group not in near]
        groups.append([number, *(other for group in near for other in group)])
    ordered = [sorted(group, key=lambda n: (points[n].y, points[n].x)) for group in groups]
    return sorted(ordered, key=lambda group: -max(points[n].weight for n in group))


def _best(
    points: Sequence[Point], group: _Group, area: Box, lines: Boxes, others: Boxes, covered: Boxes
) -> dict[int, Place]:
    """The nearest free places, unless the lines to those further away cross less.

    If there is no room for all names of the group, the lightest point goes without.
    """
    own = [points[number] for number in group]
    best, least = dict[int, Place](), float("inf")
    for distance, chosen in _around(own):
        if distance >= least:
            break
        names = boxes([place.box(point.name) for point, place in zip(own, chosen, strict=True)])
        if not _contains(area, names) or overlapping(names, covered):
            continue
        line = np.concatenate([_line(*each) for each in zip(own, chosen, strict=True)])
        cost = distance + _DETOUR * bool(overlapping(line, lines))
        cost += _LONG_DETOUR * bool(overlapping(line, others))
        if cost < least:
            best, least = dict(zip(group, chosen, strict=True)), cost
    if best or len(group) == 1:
        return best
    lightest = min(group, key=lambda number: points[number].weight)
    rest = [number for number in group if number != lightest]
    return _best(points, rest, area, lines, others, covered)


def _around(group: Sequence[Point]) -> Iterator[tuple[float, list[Place]]]:
    """Places beside the points of a group, with their distance, the nearest first."""
    left = min(point.box.left for point in group)
    right = max(point.box.right for point in group)
    middle = (group[0].y + group[-1].y) / 2
    choices = []
    for shift in range(-_SHIFTS, _SHIFTS + 1):
        top = middle + (shift - len(group) + 1) * _LINE / 2
        for gap in (_BESIDE, *_AWAY):
            for x, is_right in ((right + gap, True), (left - gap, False)):
                chosen = [Place(x, top + n * _LINE, is_right) for n in range(len(group))]
                choices.append((hypot(gap, shift * _LINE / 2), chosen))
    return iter(sorted(choices, key=lambda choice: choice[0]))


def _line(point: Point, place: Place) -> Boxes:
    """What the line from a circle to a name covers."""
    samples = _SAMPLES if place.needs_line(point) else 0
    share = np.linspace((point.radius + _BESIDE) / point.distance(place), 1, samples)
    x, y = point.x + (place.x - point.x) * share, point.y + (place.y - point.y) * share
    return np.column_stack([x - _DOT, y - _DOT, x + _DOT, y + _DOT])


def _contains(area: Box, inner: Boxes) -> bool:
    return bool(
        (inner[:, :2] >= (area.left, area.top)).all()
        and (inner[:, 2:] <= (area.right, area.bottom)).all()
    )


def overlapping(some: Boxes, others: Boxes) -> int:
    """How many boxes of the ones have a part in common with any of the others."""
    left, top, right, bottom = some.T[:, :, None]
    other_left, other_top, other_right, other_bottom = others.T
    across = (left < other_right) & (other_left < right)
    return int((across & (top < other_bottom) & (other_top < bottom)).any(axis=1).sum())


def boxes(each: Sequence[Box]) -> Boxes:
    return np.array(each, dtype=np.float64).reshape(-1, 4)
