"""Keeps two forms of one recording out of a database: they would count as two ranks."""

from collections.abc import Iterable
from dataclasses import dataclass

from traceql.errors import RankConflict
from traceql.readers.dialects.facts import FileFacts


@dataclass(frozen=True)
class Recorded:
    """A rank of a file.

    Attributes:
        first_ts: the time of its first event in the file's own time, ns; None if it is unknown.
    """

    path: str
    facts: FileFacts
    first_ts: int | None = None


def require_one_form(found: Iterable[Recorded]) -> None:
    """Raises RankConflict if two files have the same process and GPU in different forms.

    Or in the same form, if they also begin at the same time.
    """
    seen: dict[str, list[Recorded]] = {}
    for one in found:
        before = seen.setdefault(one.facts.recorded, [])
        for other in before if one.facts.recorded else ():
            if one.path != other.path and _is_same(one, other):
                raise RankConflict(
                    f"{one.facts.recorded} is both in {other.path} and in {one.path}, which seem "
                    "to be the same recording; load one of them, or different runs into different "
                    "databases (-o)"
                )
        before.append(one)


def _is_same(one: Recorded, other: Recorded) -> bool:
    is_at_once = one.first_ts is not None and one.first_ts == other.first_ts
    return one.facts.form != other.facts.form or is_at_once
