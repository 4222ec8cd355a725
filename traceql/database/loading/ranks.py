"""The rank and the time base of each file; duplicate recordings are an error."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from traceql.database.loading.run_directory import RankEntry, RunDirectory
from traceql.errors import RankConflict
from traceql.readers.dialects.facts import FileFacts


@dataclass(frozen=True)
class Recording:
    """A rank of a file, and its first event in the file's own time, ns; None if it is unknown."""

    path: str
    facts: FileFacts
    first_ts: int | None = None


def require_no_duplicates(found: Iterable[Recording]) -> None:
    """Raises RankConflict if two files have the same process and GPU in different formats.

    Or in the same format, if they also begin at the same time.
    """
    seen: dict[str, list[Recording]] = {}
    for one in found:
        before = seen.setdefault(one.facts.recorded, [])
        for other in before if one.facts.recorded else ():
            begins_together = one.first_ts is not None and one.first_ts == other.first_ts
            is_same = begins_together or one.facts.form != other.facts.form
            if one.path != other.path and is_same:
                raise RankConflict(
                    f"{one.facts.recorded} is both in {other.path} and in {one.path}, which seem "
                    "to be the same recording; load one of them, or different runs into different "
                    "databases (-o)"
                )
        before.append(one)


# A number with more digits is not a rank; it may be a time.
_RANK_IN_NAME = re.compile(r"(?:^|[_\-.])rank[_\-]?([0-9]{1,9})(?=[^0-9]|$)", re.IGNORECASE)
_PARALLEL_IN_NAME = re.compile(r"(?:^|[_\-.])(tp|pp|dp|ep)([0-9]{1,9})(?=[_\-.])")


@dataclass(frozen=True)
class Rank:
    """The rank of a file in the job; unknown parallel ranks are None."""

    rank: int
    world_size: int
    source: str  # run.json, a key of the file, file name, order of files or of processes
    tp_rank: int | None = None
    pp_rank: int | None = None
    dp_rank: int | None = None
    ep_rank: int | None = None


def ranks(
    files: Sequence[tuple[Path, FileFacts]],
    runs: Mapping[Path, RunDirectory],
    taken: Mapping[int, str],
) -> list[Rank]:
    """The rank of each file.

    Args:
        runs: the run directory of each trace that is in one.
        taken: the ranks that are already in the database, with the paths of their files.

    Raises:
        RankConflict: two files claim one rank.
    """
    owner = dict(taken)
    stated = [
        runs[path].rank_of(path, facts.process) if path in runs else None for path, facts in files
    ]
    recordings = Counter(path for path, _ in files)
    claims = [
        _claim(path, facts, entry, is_alone=recordings[path] == 1)
        for (path, facts), entry in zip(files, stated, strict=True)
    ]
    for (path, _), (claimed, _) in zip(files, claims, strict=True):
        if claimed is not None:
            if claimed in owner:
                raise RankConflict(
                    f"rank {claimed} is claimed by {owner[claimed]} and by {path}; "
                    "load different runs into different databases (-o)"
                )
            owner[claimed] = str(path)
    found = []
    for (path, facts), entry, (claimed, source) in zip(files, stated, claims, strict=True):
        free = next(n for n in range(len(owner) + 1) if n not in owner)
        number = free if claimed is None else claimed
        owner[number] = str(path)
        world_size = runs[path].world_size if entry else None
        size = (facts.world_size or 0) if world_size is None else world_size
        parallel = {f"{kind}_rank": int(n) for kind, n in _PARALLEL_IN_NAME.findall(path.name)}
        if entry:
            names = ("tp_rank", "pp_rank", "dp_rank", "ep_rank")
            parallel = {name: getattr(entry, name) for name in names}
        found.append(Rank(number, size, source, **parallel))
    least = [facts.least_world_size for _, facts in files]
    size = max([r.world_size for r in found] + least + [len(owner)])
    return [r if r.world_size else replace(r, world_size=size) for r in found]


def _claim(
    path: Path, facts: FileFacts, entry: RankEntry | None, *, is_alone: bool
) -> tuple[int | None, str]:
    """The rank that a recording states, and where; a file name states the rank of one recording."""
    if entry:
        return entry.rank, "run.json"
    if facts.rank is not None:
        return facts.rank, facts.job_source
    if is_alone and (named := _RANK_IN_NAME.search(path.name)):
        return int(named[1]), "file name"
    return None, "order of files" if is_alone else "order of processes"


# Clocks that count from the boot of their hosts differ by more than traces of one run.
_UNRELATED_S = 60


@dataclass(frozen=True)
class Extent:
    """The first and the last time in a file, and its time base."""

    first_ts: int  # ns
    last_ts: int  # ns
    base_ns: int | None  # baseTimeNanoseconds; None if the file has none

    @property
    def is_empty(self) -> bool:
        return self.first_ts > self.last_ts

    @property
    def span_ns(self) -> tuple[int, int]:
        """First and last time, with the base added, ns."""
        base = self.base_ns or 0
        return self.first_ts + base, self.last_ts + base


PlacedExtent = tuple[Extent, int]  # an extent, and the shift of its clock, ns


@dataclass(frozen=True)
class Placement:
    """What to add to the times of a file to get the run's time, ns, with the reason."""

    shift_ns: int
    note: str


class _Clock:
    """A clock that some ranks share, and what to add to its times to get the run's time, ns."""

    def __init__(self, extent: Extent, shift_ns: int) -> None:
        self.first_ns, self.last_ns = extent.span_ns
        self.base_ns = extent.base_ns or 0
        self.shift_ns = shift_ns

    def seconds_to(self, extent: Extent) -> float:
        first_ns, last_ns = extent.span_ns
        return max(first_ns - self.last_ns, self.first_ns - last_ns) / 1e9


def placements(extents: Sequence[Extent], placed: Sequence[PlacedExtent] = ()) -> list[Placement]:
    """The placement of each extent; the first rank with events is the reference rank.

    The times of a file plus baseTimeNanoseconds are compared. If a rank is more than a minute from
    the reference rank, its clock has another origin, such as the boot of its host. All ranks with
    such a clock get the same shift, so that the first of them begins together with the reference
    rank.

    Args:
        placed: the extents of files that were placed before, the reference rank first.
    """
    clocks: list[_Clock] = []
    known = 0
    for extent, shift_ns in [*placed, *((one, None) for one in extents if not one.is_empty)]:
        clock = next((one for one in clocks if one.seconds_to(extent) <= _UNRELATED_S), None)
        if clock is None:
            clock = _Clock(extent, shift_ns or 0)
            clocks.append(clock)
            known += shift_ns is not None
        first_ns, last_ns = extent.span_ns
        clock.first_ns, clock.last_ns = min(clock.first_ns, first_ns), max(clock.last_ns, last_ns)
    for clock in clocks[max(known, 1) :]:
        clock.shift_ns = clocks[0].first_ns + clocks[0].shift_ns - clock.first_ns
    return [_placement(extent, clocks) for extent in extents]


def _placement(extent: Extent, clocks: Sequence[_Clock]) -> Placement:
    base = extent.base_ns or 0
    if extent.is_empty:
        return Placement(base, "no events")
    clock = next(c for c in clocks if c.seconds_to(extent) <= _UNRELATED_S)
    if clock is not clocks[0]:
        apart = clocks[0].seconds_to(extent)
        return Placement(
            base + clock.shift_ns,
            f"clock unrelated to the reference rank's ({apart:.0f} s away): shifted so that the "
            "first rank of each clock begins at the same time; do not compare times across clocks",
        )
    if base != clock.base_ns:
        note = f"base time {base - clock.base_ns} ns after the reference rank's: Unix time is used"
        return Placement(base + clock.shift_ns, note)
    source = "as in the file" if extent.base_ns is None else "plus baseTimeNanoseconds"
    return Placement(base + clock.shift_ns, f"same clock as the reference rank; times {source}")
