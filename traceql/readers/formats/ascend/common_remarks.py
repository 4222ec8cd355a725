"""What the ledger has to say about a profile of Ascend in either form."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from traceql.readers.dialects.ascend.vocabulary import IS_COMPUTE_TASK, IS_OTHER_TASK
from traceql.readers.formats.ascend.layout import others_beside
from traceql.readers.remarks import Remark


def files_beside(path: Path, damaged: list[str]) -> Iterator[Remark]:
    """Other traces of the rank, and files that could not be used.

    Args:
        damaged: a sentence for each of the latter.
    """
    if others := others_beside(path):
        listed = ", ".join(other.name for other in others)
        note = f"traces read of those beside {path.name}: {listed}. One is read for each rank"
        yield Remark("other traces of the rank", 0, len(others), None, note)
    for reason in damaged:
        yield Remark("file beside the trace", 0, 1, False, f"not used: {reason}")


def of_several_devices(devices: int) -> Remark:
    return Remark(
        "devices in the file",
        devices,
        devices,
        None,
        "devices whose tasks are in this one file; each is a rank of its own, with the threads of "
        "the host that started most of its tasks. The file does not tell which ranks they are",
    )


def of_all_devices(loaded: int, total: int) -> Remark:
    """What the parts of all devices have together, of what the file has."""
    return Remark(
        "kernels of all devices",
        loaded,
        total,
        loaded == total,
        "compute tasks, copies and operations of communication of all devices of the file, which "
        "are ranks of their own; in the file, before its events are divided among the devices",
    )


def impossible_sizes(odd: int, copies: int) -> Iterator[Remark]:
    if odd:
        yield Remark(
            "sizes of copies",
            odd,
            copies,
            False,
            "copies whose number of bytes is negative, or too large for one, and counts as "
            "unknown; all copies",
        )


def unknown_tasks(types: Counter[str], tasks: int) -> Iterator[Remark]:
    """Tasks whose type says neither that they compute nor that they do not.

    Args:
        types: the types of all tasks, with their numbers.
        tasks: the number of all tasks.
    """
    known = IS_COMPUTE_TASK, IS_OTHER_TASK
    unknown = {
        kind: number
        for kind, number in sorted(types.items())
        if not any(re.fullmatch(pattern, kind) for pattern in known)
    }
    if unknown:
        listed = ", ".join(f"'{kind or 'none'}' {n:,}" for kind, n in unknown.items())
        yield Remark(
            "tasks of unknown type",
            sum(unknown.values()),
            tasks,
            False,
            f"tasks of types that are not known ({listed}), which are loaded, but do not count as "
            "kernels; all tasks",
        )


def waits_of_profiler(own: int, tasks: int) -> Iterator[Remark]:
    if own:
        yield Remark(
            "waits of the profiler",
            own,
            tasks,
            None,
            "tasks by which the profiler made the device wait, to read memory or a graph; all "
            "tasks. Gaps behind them are its own",
        )


def captured_tasks(inside: int, counted: int, *, copies: str) -> Iterator[Remark]:
    """Tasks of captured graphs, of all that are counted.

    Args:
        copies: " and copies" where copies of graphs are known too, else empty.
    """
    if inside:
        yield Remark(
            "tasks of captured graphs",
            inside,
            counted,
            None,
            f"compute tasks{copies} of captured graphs, which have no launch call of their own; "
            "all compute tasks and copies",
        )


def calls_missing(level: str = "") -> Remark:
    """Args: the level at which there are none, in brackets, where that is known."""
    return Remark(
        "calls of CANN",
        0,
        0,
        None,
        f"the profile has no calls of CANN{level}, so that launches are unknown; record with "
        "profiler_level=Level1",
    )


def owned_parts(owned: int, parts: int) -> Remark:
    return Remark(
        "parts of communication",
        owned,
        parts,
        owned == parts,
        "tasks on planes that belong to an operation; all tasks on planes",
    )
