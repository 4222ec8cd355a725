"""Which processes of a merged file used which GPUs: by pids, place in the file or correlation."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from itertools import chain, pairwise, permutations
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.device_activities import DeviceActivities, is_launch_category
from traceql.readers.formats.kineto.times import Int64s
from traceql.readers.tracks import Track

_NUMBERS = re.compile(r"(\d+)")
_MOST_TRIED = 6  # processes whose GPUs are found by trying all orders
_EXPLAINED = 0.95  # of the GPU activities that the best choice explains

# Launches and GPU activities: what shows which process used which GPU.
LINKED = pa.schema(
    [
        ("index", pa.int64()),  # of the slice
        *(("track", pa.int64()), ("ts", pa.int64()), ("correlation", pa.int64())),
        ("device", pa.int64()),  # of GPU activities, NULL if unknown
        ("is_launch", pa.bool_()),
    ]
)


class Linked:
    """Launches and GPU activities by process."""

    def __init__(self, tracks: Sequence[Track], parts: Iterable[pa.Table]) -> None:
        rows = pa.concat_tables([LINKED.empty_table(), *parts])
        pids = [track.pid for track in tracks]
        codes = {pid: code for code, pid in enumerate(dict.fromkeys(pids))}
        code_of_track = np.array([codes[pid] for pid in pids], np.int64)
        self._codes = codes
        self._pid = code_of_track[rows["track"].to_numpy()]
        self._index = rows["index"].to_numpy()
        self._ts = rows["ts"].to_numpy()
        self._is_launch = rows["is_launch"].to_numpy()
        self._has_id = rows["correlation"].is_valid().to_numpy()
        self._correlation = rows["correlation"].fill_null(0).to_numpy()
        self._device = rows["device"].fill_null(-1).to_numpy()

    def gpus(self) -> set[Any]:
        """The pids with activities of a device."""
        codes = set(self._pid[~self._is_launch].tolist())
        return {pid for pid, code in self._codes.items() if code in codes}

    def place(self, pid: Any) -> tuple[int, int]:
        """The first and the last launch or activity of a process in the order of the file."""
        index = self._index[self._pid == self._codes[pid]]
        return int(index.min()), int(index.max())

    def launched(self, host: Any) -> tuple[Int64s, Int64s]:
        """The correlations that a process launched, sorted, and the first time of each, ns."""
        rows = self._rows(host, is_launch=True)
        correlation, ts = self._correlation[rows], self._ts[rows]
        order = np.lexsort((ts, correlation))
        distinct, first = np.unique(correlation[order], return_index=True)
        return distinct, ts[order][first]

    def explained(self, gpu: Any, launched: tuple[Int64s, Int64s]) -> int:
        """The number of activities on a GPU that follow one of these launches."""
        rows = self._rows(gpu, is_launch=False)
        correlation, began = launched
        if not len(correlation):
            return 0
        at = np.minimum(np.searchsorted(correlation, self._correlation[rows]), len(correlation) - 1)
        same = correlation[at] == self._correlation[rows]
        return int((same & (self._ts[rows] >= began[at])).sum())

    def activities(self, gpu: Any) -> Counter[int]:
        """The number of activities on a GPU by correlation."""
        return Counter(self._correlation[self._rows(gpu, is_launch=False)].tolist())

    def offset(self, gpu: Any) -> int | None:
        """What is added to the number of the device in its pid; None if that is unknown."""
        devices = np.unique(self._device[self._rows(gpu, is_launch=False)])
        if type(gpu) is not int or len(devices) != 1 or devices[0] < 0:
            return None
        return gpu - int(devices[0])

    def _rows(self, pid: Any, *, is_launch: bool) -> Any:
        of_pid = (self._pid == self._codes[pid]) & (self._is_launch == is_launch)
        return np.flatnonzero(of_pid & self._has_id)


def groups_by_number(
    tracks: Sequence[Track], rows: Linked, hosts: Set[Any], gpus: Set[Any]
) -> list[set[Any]]:
    """Processes with their GPUs, by the numbers in pids or by correlation."""
    if len(hosts) == 1:
        _require_one_process(rows, next(iter(hosts)), gpus)
        return []
    if hosts == gpus:  # a merger has numbered the processes by rank
        return [{pid} for pid in sorted(hosts, key=natural)]
    numbers = {track.pid for track in tracks if type(track.pid) is int}
    return _by_offset(rows, hosts, gpus, numbers) or _by_correlation(rows, hosts, gpus)


def _require_one_process(rows: Linked, host: Any, gpus: Set[Any]) -> None:
    """Raises TraceCorrupt if the processes of several ranks have the same id."""
    used = Counter(chain(*(rows.activities(gpu).keys() for gpu in gpus)))
    repeated = sum(number > 1 for number in used.values())
    if repeated > len(used) / 2:
        raise TraceCorrupt(
            f"launches of several processes have the id {host} and the same correlations, so the "
            f"file has several ranks that cannot be separated; {_REMEDY}"
        )


def _by_offset(rows: Linked, hosts: Set[Any], gpus: Set[Any], numbers: Set[int]) -> list[set[Any]]:
    """Groups of pids to which a merger has added the same number; empty if they are uncertain.

    Args:
        numbers: all pids that are numbers.
    """
    offsets = {gpu: rows.offset(gpu) for gpu in gpus}
    distinct = sorted({offset for offset in offsets.values() if offset is not None})
    if len(distinct) < 2 or None in offsets.values() or not hosts <= numbers:
        return []
    groups: list[set[Any]] = [
        {gpu for gpu in gpus if offsets[gpu] == offset} for offset in distinct
    ]
    for pid in numbers - gpus:
        groups[max(int(np.searchsorted(distinct, pid, side="right")) - 1, 0)].add(pid)
    is_certain = min(hosts) >= distinct[0] and all(group & hosts for group in groups)
    return groups if is_certain else []


def _by_correlation(rows: Linked, hosts: Set[Any], gpus: Set[Any]) -> list[set[Any]]:
    """Each process with the GPUs whose activities it launched; empty if only one has any.

    Raises:
        TraceCorrupt: the launches of several processes explain the same activities.
    """
    in_order, used = sorted(hosts, key=natural), sorted(gpus, key=natural)
    launched = [rows.launched(host) for host in in_order]
    explained = np.array([[rows.explained(gpu, one) for one in launched] for gpu in used])
    activities = [rows.activities(gpu) for gpu in used]
    if any(_is_shared(*one, launched) for one in zip(activities, explained.tolist(), strict=True)):
        raise TraceCorrupt(
            f"processes {_listed(in_order)} launched what ran on one track of GPU {_listed(used)}, "
            f"so the file has several ranks that cannot be separated; {_REMEDY}"
        )
    owner = _owners_by_place(rows, in_order, used) or _owners(explained)
    if owner is None:
        raise TraceCorrupt(
            f"the file has ranks of processes {_listed(in_order)}, and their correlations do not "
            f"show which of them used GPU {_listed(used)}; {_REMEDY}"
        )
    groups: dict[Any, set[Any]] = {}
    for gpu, host, most in zip(used, owner, explained.max(axis=1).tolist(), strict=True):
        if most:
            groups.setdefault(in_order[host], {in_order[host]}).add(gpu)
    return list(groups.values()) if len(groups) > 1 else []


def _is_shared(
    activities: Counter[int], explained: Sequence[int], launched: Sequence[tuple[Int64s, Int64s]]
) -> bool:
    """Whether several processes launched what is on a track.

    Either most launches that they number alike have an activity each, or one process explains what
    another does not.
    """
    ids = Counter(chain(*(correlation.tolist() for correlation, _ in launched)))
    shared = {one: number for one, number in ids.items() if number > 1}
    each = sum(activities[one] == number for one, number in shared.items())
    if each > sum(activities[one] == 1 for one in shared):
        return True
    second, most = sorted(explained)[-2:]
    total = activities.total()
    return min(second, total - most) > (1 - _EXPLAINED) * total


_REMEDY = "load the files of the ranks instead of the merged one"


def _listed(pids: Sequence[Any]) -> str:
    *others, last = map(str, pids)
    return f"{', '.join(others)} and {last}" if others else last


def _owners_by_place(rows: Linked, hosts: Sequence[Any], gpus: Sequence[Any]) -> list[int] | None:
    """The process of each GPU in a file whose parts are files one after the other; else None."""
    places = [rows.place(host) for host in hosts]
    ordered = sorted(places)
    if any(last > first for (_, last), (first, _) in pairwise(ordered)):
        return None
    owners = []
    for gpu in gpus:
        first, last = rows.place(gpu)
        around = [n for n, (begin, end) in enumerate(places) if first < end and begin < last]
        if len(around) != 1:
            return None
        owners += around
    return owners


def _owners(explained: Any) -> list[int] | None:
    """The process of each GPU: the one that explains most of its activities.

    As many processes as GPUs have one each, if that explains as much. None if several choices
    explain the same.

    Args:
        explained: the number of activities of each GPU (row) that each process (column) explains.
    """
    gpus, hosts = explained.shape
    best = explained.max(axis=1)
    if gpus == hosts <= _MOST_TRIED:
        totals = Counter(
            {
                order: int(explained[np.arange(gpus), list(order)].sum())
                for order in permutations(range(hosts))
            }
        )
        (order, most), (_, second) = totals.most_common(2)
        if most >= _EXPLAINED * best.sum() and all(explained[np.arange(gpus), list(order)]):
            return list(order) if most > second else None
    if ((explained == best[:, None]).sum(axis=1) > 1)[best > 0].any():
        return None
    return [int(host) for host in explained.argmax(axis=1)]


def natural(value: Any) -> list[Any]:
    """A key that sorts numbers in texts by their value."""
    parts = _NUMBERS.split(str(value))
    return [(int(part), "") if number % 2 else (0, part) for number, part in enumerate(parts)]


def linked(
    slices: pa.Table, possible: pa.Table, tracks: Sequence[Track], before: int = 0
) -> pa.Table:
    """The launches and activities among slices, with the columns of `LINKED`.

    Args:
        slices: a part of a file with the columns cat, track, ts and correlation.
        possible: the rows of the contract's table activity that may be activities.
        before: the number of slices in earlier parts.
    """
    activity = DeviceActivities(tracks).found(possible, slices, before)
    cats = pa.chunked_array(slices["cat"]).combine_chunks()
    is_launch = [is_launch_category(cat) for cat in cats.dictionary.to_pylist()]
    codes = cats.indices.fill_null(len(is_launch)).to_numpy()
    launches = np.flatnonzero(np.array([*is_launch, False], np.bool_)[codes])
    on_gpu = activity["index"].to_numpy() - before
    rows = pa.array(np.concatenate((launches, on_gpu)))
    nothing = pa.nulls(len(launches), pa.int64())
    columns = [
        pa.array(before + rows.to_numpy()),
        *(slices[name].take(rows) for name in ("track", "ts", "correlation")),
        pa.chunked_array([nothing, *pa.chunked_array(activity["device"]).chunks]),
        pa.array(np.arange(len(rows)) < len(launches)),
    ]
    return pa.table(columns, schema=LINKED)
