"""Fits a table into a terminal: which columns are shown, and in how many places each.

Numbers are never cut. Names are shortened in the middle down to a minimum, sentences wrap, and
titles wrap where the table is narrow. If that is not enough, columns are left out, the key
columns last.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from traceql.result.text_table.columns import UNIT, VALUES, DisplayColumn
from traceql.result.text_table.values import is_sentence, places, without_middle, wrapped

_GAPS = (3, 2)  # places between columns, where there is room and where there is not
# The fewest places that a text may be cut or wrapped to: at least, as a part of the room, at most.
_LEAST_OF_NAMES = (16, 3, 32)
_LEAST_OF_SENTENCES = (24, 4, 60)
_LONGEST_TITLE = 20  # of a part that does not wrap
_TITLE_PART = re.compile(r"[^_ ]+_*|_+")


@dataclass(frozen=True)
class ShownColumn:
    """A column, its places, and its title in lines that fit."""

    column: DisplayColumn
    room: int
    title: Sequence[str]

    def lines(self, cell: str) -> list[str]:
        """The lines of a cell, none of which takes more places than there are."""
        if places(cell) <= self.room:
            return [cell]
        return wrapped(cell, self.room) if is_sentence(cell) else [without_middle(cell, self.room)]


@dataclass(frozen=True)
class Layout:
    """The columns in the order of the table, the places between them, and what is left out."""

    shown: Sequence[ShownColumn]
    gap: int
    hidden: Sequence[DisplayColumn]


def layout(columns: Sequence[DisplayColumn], room: int, keys: Collection[str] = ()) -> Layout:
    """The layout of a table of this width.

    Args:
        keys: the names of the columns that stay longest, the most important first.
    """
    for gap in _GAPS:
        if _total([_whole(column) for column in columns], gap) <= room:
            return Layout(_whole_columns(columns), gap, [])
    if _total([_least(column, room, whole_title=True) for column in columns], _GAPS[-1]) <= room:
        return Layout(_fitted(columns, room, whole_titles=True), _GAPS[-1], [])
    chosen = _chosen(columns, room, keys)
    shown = [column for column in columns if column.name in chosen]
    hidden = [column for column in columns if column.name not in chosen]
    return Layout(_fitted(shown, room), _GAPS[-1], hidden)


def unlimited(columns: Sequence[DisplayColumn]) -> Layout:
    """The layout of a table in as many places as it takes."""
    return Layout(_whole_columns(columns), _GAPS[0], [])


def _whole_columns(columns: Sequence[DisplayColumn]) -> list[ShownColumn]:
    return [ShownColumn(column, _whole(column), [column.title]) for column in columns]


def _whole(column: DisplayColumn) -> int:
    return max(places(column.title), column.width)


def _total(rooms: Collection[int], gap: int) -> int:
    return sum(rooms) + gap * (len(rooms) - 1)


def _least(column: DisplayColumn, room: int, *, whole_title: bool = False) -> int:
    """The fewest places in which a column can be read."""
    parts = [column.title] if whole_title else _TITLE_PART.findall(column.title)
    title = min(max(map(places, parts), default=0), _LONGEST_TITLE)
    if column.is_number:
        return min(max(column.width, title), room)
    fewest, part, most = _LEAST_OF_SENTENCES if column.is_prose else _LEAST_OF_NAMES
    least = min(max(fewest, room // part), most)
    return min(max(min(column.width, least), title), room)


def _chosen(columns: Sequence[DisplayColumn], room: int, keys: Collection[str]) -> set[str]:
    """The names of the columns that fit, at least one; key columns come first."""
    ranks = {name: rank for rank, name in enumerate(keys)}
    chosen: dict[str, int] = {}
    for column in sorted(columns, key=lambda column: ranks.get(column.name, len(ranks))):
        least = _least(column, room)
        if not chosen or _total([*chosen.values(), least], _GAPS[-1]) <= room:
            chosen[column.name] = least
    names = {column.name for column in columns}
    if UNIT in names - chosen.keys() and len(chosen) > 1:
        for name in chain.from_iterable(VALUES):
            chosen.pop(name, None)  # a number without its unit says nothing
    return set(chosen)


def _fitted(
    columns: Sequence[DisplayColumn], room: int, *, whole_titles: bool = False
) -> list[ShownColumn]:
    """Gives what is left of the room to the texts, small gaps first, large ones in equal parts."""
    rooms = [_least(column, room, whole_title=whole_titles) for column in columns]
    left = room - _total(rooms, _GAPS[-1])
    lacks = [max(column.width, least) - least for column, least in zip(columns, rooms, strict=True)]
    in_order = sorted(range(len(columns)), key=lacks.__getitem__)
    for served, place in enumerate(in_order):
        given = min(lacks[place], left // (len(in_order) - served))
        rooms[place] += given
        left -= given
    return [
        ShownColumn(column, given, _title_lines(column.title, given))
        for column, given in zip(columns, rooms, strict=True)
    ]


def _title_lines(title: str, room: int) -> list[str]:
    """A title in lines that end at blanks or after underscores."""
    lines = [""]
    for part in _TITLE_PART.findall(title):
        blank = " " if lines[-1] and not lines[-1].endswith("_") else ""
        if places(lines[-1]) + len(blank) + places(part) <= room or not lines[-1]:
            lines[-1] += blank + part
        else:
            lines.append(part)
    return [without_middle(line, room) for line in lines]
