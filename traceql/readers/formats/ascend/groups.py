"""Operations of communication: their groups, and the parts that belong to them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from traceql.readers.dialects.ascend.vocabulary import Argument, Category
from traceql.readers.formats.ascend.events import AscendEvents
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.tracks import Track

Int64s = npt.NDArray[np.int64]
COMMUNICATION_FILE = "communication.json"
TOTAL = "Total Op Info"  # an entry among the operations that sums them up
_SEPARATOR = "@"


def operations(files: SideFiles) -> list[tuple[str, str, Mapping[str, object]]]:
    """Name, group and content of each operation in communication.json, in its order."""
    found: list[tuple[str, str, Mapping[str, object]]] = []
    for step in files.document(COMMUNICATION_FILE).values():
        for kind in step.values() if isinstance(step, dict) else ():
            for called, content in kind.items() if isinstance(kind, dict) else ():
                name, _, group = called.partition(_SEPARATOR)
                if isinstance(content, dict) and name != TOTAL:
                    found.append((name, group, content))
    return found


def group_arguments(events: AscendEvents, files: SideFiles) -> dict[int, str]:
    """The group of each operation, as JSON without braces, by the index of its event.

    Names are those of one step and group, so a name that several groups have says nothing.
    """
    groups = defaultdict(set)
    for name, group, _ in operations(files):
        groups[name].add(group)
    return {
        index: f"{json.dumps(Argument.GROUP.value)}: {json.dumps(min(groups[events.names[index]]))}"
        for index in np.flatnonzero(events.of(Category.COMMUNICATION)).tolist()
        if len(groups.get(events.names[index], ())) == 1
    }


def operation_of_parts(events: AscendEvents) -> tuple[Int64s, Int64s]:
    """The parts on the planes that belong to an operation, and the operation of each.

    The planes of a group have the numbers after that of its own thread. A part belongs to the
    operation of its group during which it began.
    """
    slices, tracks = events.parsed.slices, events.tracks
    threads = sorted({int(t) for t in slices.track[events.of(Category.COMMUNICATION)]})
    parts = np.flatnonzero(events.of(Category.PLANE))
    whole = np.flatnonzero(events.of(Category.COMMUNICATION))
    owner = {
        int(track): _group_thread(tracks, int(track), threads)
        for track in np.unique(slices.track[parts])
    }
    found_parts, found_owners = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in threads:
        own = whole[slices.track[whole] == thread]
        own = own[np.argsort(slices.ts[own], kind="stable")]
        members = parts[[owner[int(track)] == thread for track in slices.track[parts]]]
        place = np.searchsorted(slices.ts[own], slices.ts[members], side="right") - 1
        last = own[np.maximum(place, 0)]
        inside = (place >= 0) & (slices.ts[members] <= slices.ts[last] + slices.dur[last])
        found_parts.append(members[inside])
        found_owners.append(last[inside])
    return np.concatenate(found_parts), np.concatenate(found_owners)


def _group_thread(tracks: Sequence[Track], plane: int, threads: Sequence[int]) -> int | None:
    """The track of the group that a plane belongs to."""
    before = [
        thread
        for thread in threads
        if tracks[thread].pid == tracks[plane].pid and _tid(tracks, thread) < _tid(tracks, plane)
    ]
    return max(before, key=lambda thread: _tid(tracks, thread), default=None)


def _tid(tracks: Sequence[Track], number: int) -> int:
    tid = tracks[number].tid
    return tid if isinstance(tid, int) else -1
