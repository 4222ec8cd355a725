"""The ranks of a file into which a program has merged the files of several ranks.

Mergers keep all events, and tell the ranks apart by a label before each process id or in the names
of processes, or by an offset that they add to process ids. Correlations and ids of arrows then
occur once in each rank, so each rank is a recording of its own.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from traceql.readers.dialects.pytorch.vocabulary import Metadata
from traceql.readers.formats.kineto.gpus_of_processes import Linked, groups_by_number, natural
from traceql.readers.formats.kineto.kineto_json import Event
from traceql.readers.tracks import Track

_KINDS = ("rank", "tp", "pp", "dp", "ep", "cp", "worker", "replica", "node", "r")
_WORD = re.compile(rf"(?<![a-z])({'|'.join(_KINDS)})[\s_:#=.\-]*(\d{{1,6}})(?!\d)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"^(.*\D)\d+\s*$", re.DOTALL)
_FIRST_NUMBER = re.compile(r"^\s*\d+(\D.*)$", re.DOTALL)
_BY_IMPORTANCE = ("rank", "r", "tp", "worker", "dp", "pp", "ep", "node", "replica", "cp")
_OUTER_FIRST = ("node", "replica", "dp", "pp", "ep", "cp", "tp", "worker", "rank", "r")


@dataclass(frozen=True)
class MergedRank:
    """A rank in a merged file.

    Attributes:
        label: what the merger calls it; empty if it gave no label.
        coordinates: the numbers in the label by kind, such as tp: 1.
        pids: its processes and GPUs, as in the file.
        uses_gpu: whether it has activities of a device; others are not ranks.
        is_first: whether it comes first in the file, so that the keys at the top are its own.
    """

    label: str
    coordinates: Mapping[str, int]
    pids: frozenset[Any]
    uses_gpu: bool
    is_first: bool = False


def merged_ranks(
    *,
    hosts: Set[Any],
    possible: Set[Any],
    tracks: Callable[[], Sequence[Track]],
    linked: Callable[[], Iterable[pa.Table]],
) -> list[MergedRank]:
    """The ranks of a merged file; empty for a file of one rank, as the profiler writes it.

    Args:
        hosts: the pids with launches.
        possible: the pids with events that may be activities of a device.
        tracks: the tracks of the file.
        linked: its launches and activities, with the columns of `LINKED`.

    Raises:
        TraceCorrupt: the file has several ranks that cannot be separated.
    """
    if len(hosts) < 2 and len(possible - hosts) < 2:
        return []
    found = tracks()
    seen = Linked(found, linked())
    gpus = seen.gpus()
    groups = _by_label(found, hosts, gpus) if gpus else {}
    if not groups and hosts and gpus:
        separated = groups_by_number(found, seen, hosts, gpus)
        groups = _by_names_of_hosts(separated, hosts, _names(found))
    return _in_order(groups, found, gpus)


Groups = dict[str, set[Any]]  # pids by label


def _by_label(tracks: Sequence[Track], hosts: Set[Any], gpus: Set[Any]) -> Groups:
    """The groups of processes that labels separate; empty if they separate none."""
    texts: dict[Any, str] = {track.pid: track.pid for track in tracks if type(track.pid) is str}
    named = _names(tracks)
    groups = _labelled(texts, _words)
    if _is_separated(groups, hosts, gpus, every=False):
        return groups
    for of_pid, label in (
        (texts, lambda text: _found(_LAST_NUMBER, text)),
        (texts, lambda text: _found(_FIRST_NUMBER, text)),
        (named, _words),
    ):
        groups = _labelled(of_pid, label)
        if _is_separated(groups, hosts, gpus, every=True):
            return groups
    return {}


def _names(tracks: Sequence[Track]) -> dict[Any, str]:
    """Labels and name of each process."""
    abouts = ((track.pid, track.process_labels, track.process_name) for track in tracks)
    return {pid: " ".join(str(text) for text in about if text) for pid, *about in abouts}


def _labelled(texts: Mapping[Any, str], label: Callable[[str], str]) -> Groups:
    groups: Groups = defaultdict(set)
    for pid, text in texts.items():
        groups[label(text)].add(pid)
    for pid in groups.pop("", ()):  # such as "[TP00] Spans", which has no number of its own
        owner = next((one for one in groups if texts[pid].startswith(one)), None)
        if owner:
            groups[owner].add(pid)
    return dict(groups)


def _words(text: str) -> str:
    """The ranks in a text, such as `TP00-PP01`; empty if it has none."""
    return "-".join(dict.fromkeys(found[0] for found in _WORD.finditer(text)))


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text)
    return found[1].strip() if found else ""


def _is_separated(groups: Groups, hosts: Set[Any], gpus: Set[Any], *, every: bool) -> bool:
    """Whether several groups have GPU activities, with launches of their own.

    Args:
        every: whether each of them needs launches, if there are any, or one of them.
    """
    working = [group for group in groups.values() if group & gpus]
    has_launches = [bool(group & hosts) for group in working]
    if len(working) < 2 or not (hosts | gpus) <= set(chain(*groups.values())):
        return False
    return not hosts or (all if every else any)(has_launches)


def _by_names_of_hosts(
    separated: Sequence[set[Any]], hosts: Set[Any], names: Mapping[Any, str]
) -> Groups:
    """Groups of pids by the rank in the names of their processes, or by number."""
    labels = [_words(" ".join(names[pid] for pid in pids & hosts)) for pids in separated]
    if "" in labels or len(set(labels)) < len(labels):
        labels = [str(number) for number in range(len(separated))]
    return dict(zip(labels, separated, strict=True))


def _in_order(groups: Groups, tracks: Sequence[Track], gpus: Set[Any]) -> list[MergedRank]:
    """The ranks by number; processes without a rank belong to the one that begins the file."""
    if not groups:
        return []
    owner = {pid: label for label, pids in groups.items() for pid in pids}
    first = next(owner[track.pid] for track in tracks if track.pid in owner)
    groups[first] |= {track.pid for track in tracks} - owner.keys()
    found = []
    for label in sorted(groups, key=_place):
        words = {kind.lower(): int(number) for kind, number in _WORD.findall(label)}
        given = "" if label.isdecimal() else label
        pids = frozenset(groups[label])
        found.append(MergedRank(given, words, pids, bool(pids & gpus), label == first))
    return found


def _place(label: str) -> tuple[Any, ...]:
    words = {kind.lower(): int(number) for kind, number in _WORD.findall(label)}
    return [words.get(kind, -1) for kind in _OUTER_FIRST], natural(label)


def events_by_rank(events: Iterable[Event], ranks: Sequence[MergedRank]) -> list[list[Event]]:
    """The events of each rank, in their order."""
    found: list[list[Event]] = [[] for _ in ranks]
    first = next(events for events, rank in zip(found, ranks, strict=True) if rank.is_first)
    of_pid = {pid: one for one, rank in zip(found, ranks, strict=True) for pid in rank.pids}
    for event in events:
        of_pid.get(event.pid, first).append(event)
    return found


def about_ranks(metadata: Mapping[str, Any], ranks: Sequence[MergedRank]) -> list[dict[str, Any]]:
    """The metadata of each rank: what the file says of its job is true of its first rank only."""
    info = metadata.get(Metadata.DISTRIBUTED_INFO)
    stated = info.get(Metadata.RANK) if isinstance(info, dict) else None
    numbers = _numbers(ranks)
    first = next(number for number, rank in enumerate(ranks) if rank.is_first)
    shift = stated - numbers[first] if type(stated) is int and numbers else 0
    if numbers and min(numbers) + shift < 0:
        numbers = []
    found, count = [], sum(rank.uses_gpu for rank in ranks)
    for number, rank in enumerate(ranks):
        merged: dict[str, Any] = {"number": number, "ranks": count, "label": rank.label}
        if numbers:
            merged[Metadata.RANK] = numbers[number] + shift
        own = {**metadata, Metadata.MERGED.value: merged}
        if not rank.is_first:
            own.pop(Metadata.DISTRIBUTED_INFO, None)
        found.append(own)
    return found


def _numbers(ranks: Sequence[MergedRank]) -> list[int]:
    """The rank that each label states; empty if they state none."""
    for kind in _BY_IMPORTANCE:
        stated = [rank.coordinates.get(kind, -1) for rank in ranks]
        if len(set(stated)) == len(ranks) and min(stated) >= 0:
            return stated
    return [*range(len(ranks))] if all(rank.coordinates for rank in ranks) else []
