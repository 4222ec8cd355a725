"""Which events of a recording belong to which rank.

A rank is a process and one of its GPUs. Threads belong to the GPU that they launched most kernels
on; processes without a GPU, such as an API server, are with the first rank.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.rocprof.recording import Process, Recording

Bools = npt.NDArray[np.bool_]
Place = tuple[bool, int | None]  # on a GPU; the number of the GPU or of the thread


@dataclass
class RankPart:
    """What of a recording belongs to one rank.

    Attributes:
        process: the process of the rank.
        device: the number of its GPU; None if it is unknown.
        places: the GPUs and threads whose events belong to it, by position of their process.
    """

    process: Process
    device: int | None
    places: dict[int, set[Place]] = field(default_factory=lambda: defaultdict(set))


def rank_parts(recording: Recording) -> list[RankPart]:
    """The ranks of a recording that used a GPU, by process id and GPU."""
    order = sorted(
        range(len(recording.processes)), key=lambda n: (recording.processes[n].pid or 0, n)
    )
    parts: list[RankPart] = []
    others: list[int] = []
    for number in order:
        found = _parts(recording.processes[number], number)
        parts += found
        others += [] if found else [number]
    for number in others:
        parts[0].places[number] |= set(_places(recording.processes[number]))
    return parts


def of_part(process: Process, places: set[Place]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The events, marks and samples of a process that are at these places."""
    events, marks, samples = process.events, process.marks, process.samples
    on_gpu = events["on_gpu"].to_numpy().astype(np.bool_)
    chosen = np.where(
        on_gpu, _among(events["device"], places, True), _among(events["thread"], places, False)
    )
    return (
        events if chosen.all() else events.filter(pa.array(chosen, pa.bool_())),
        marks.filter(pa.array(_among(marks["thread"], places, False))),
        samples.filter(pa.array(_among(samples["device"], places, True))),
    )


def _among(column: pa.ChunkedArray, places: set[Place], on_gpu: bool) -> Bools:
    wanted = [number for is_gpu, number in places if is_gpu == on_gpu]
    known = pa.array([number for number in wanted if number is not None], pa.int64())
    found = pc.is_in(column, value_set=known)
    if None in wanted:
        found = pc.or_(found, column.is_null())
    result: Bools = found.to_numpy().astype(np.bool_)
    return result


def _parts(process: Process, number: int) -> list[RankPart]:
    """The ranks of a process: its GPUs that did something."""
    gpus = [place for place in _places(process) if place[0]]
    devices = sorted({device for _, device in gpus if device is not None})
    worked = sorted(_kernel_devices(process) & set(devices)) or devices
    found: list[int | None] = [*worked] or [None] * bool(gpus)
    parts = [RankPart(process, device) for device in found]
    if not parts:
        return []
    busiest = _busiest(process)
    for place in _places(process):
        on_gpu, where = place
        device = where if on_gpu else busiest.get(where)
        owner = next((part for part in parts if part.device == device), parts[0])
        owner.places[number].add(place)
    return parts


def _places(process: Process) -> Sequence[Place]:
    """Every GPU and every thread of a process."""
    events = process.events
    on_gpu = pc.equal(events["on_gpu"], 1)
    gpus = [
        *pc.unique(events["device"].filter(on_gpu)).to_pylist(),
        *pc.unique(process.samples["device"]).to_pylist(),
    ]
    threads = [
        *pc.unique(events["thread"].filter(pc.invert(on_gpu))).to_pylist(),
        *pc.unique(process.marks["thread"]).to_pylist(),
    ]
    return [(True, gpu) for gpu in dict.fromkeys(gpus)] + [
        (False, thread) for thread in dict.fromkeys(threads)
    ]


def _kernel_devices(process: Process) -> set[int]:
    events = process.events
    kernels = pc.and_(pc.equal(events["on_gpu"], 1), events["dispatch"].is_valid())
    return set(pc.unique(events["device"].filter(kernels).drop_null()).to_pylist())


def _busiest(process: Process) -> dict[int | None, int | None]:
    """The GPU that each thread launched most on."""
    placed = process.events.select(["thread", "device"])
    events = placed.filter(pc.equal(process.events["on_gpu"], 1))
    counted = events.group_by(["thread", "device"]).aggregate([([], "count_all")])
    launched: defaultdict[int | None, Counter[int | None]] = defaultdict(Counter)
    for row in counted.to_pylist():
        launched[row["thread"]][row["device"]] += row["count_all"]
    return {thread: devices.most_common(1)[0][0] for thread, devices in launched.items()}
