"""What holds for the steps of any recording: spans follow from kernels, and times add up."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

Query = Callable[[str], Sequence[tuple[Any, ...]]]
Span = tuple[int, int]
Step = tuple[Any, ...]  # rank, device, number, start and duration on the GPU, ns

_KERNELS = """
    SELECT step.rank, kernel.device, step.number, MIN(kernel.ts), MAX(kernel.ts + kernel.dur)
    FROM kernel INNER JOIN step ON kernel.step_id = step.step_id AND kernel.device = step.device
    WHERE kernel.ts IS NOT NULL
    GROUP BY ALL ORDER BY ALL
"""
_STEPS = """
    SELECT rank, device, number, gpu_ts, gpu_dur FROM step WHERE gpu_ts IS NOT NULL ORDER BY ALL
"""
_ON_ANOTHER_DEVICE = """
    SELECT kernel.id FROM kernel LEFT JOIN step USING (step_id, device)
    WHERE kernel.step_id IS NOT NULL AND step.step_id IS NULL
"""
_UNEVEN_STEPS = """
    SELECT step_id
    FROM step
    LEFT JOIN (SELECT step_id, SUM(ns) AS ns FROM step_time GROUP BY step_id) USING (step_id)
    WHERE gpu_dur <> COALESCE(ns, 0)
"""
_MORE_THAN_THE_DEVICE = """
    WITH spent AS (
        SELECT step_id, SUM(ns) FILTER (part = 'idle') AS idle_ns FROM step_time GROUP BY step_id
    ),
    placed AS (
        SELECT rank, device, SUM(gpu_dur) AS ns, SUM(idle_ns) AS idle_ns
        FROM step LEFT JOIN spent USING (step_id)
        GROUP BY rank, device
    ),
    whole AS (
        SELECT rank, device, SUM(dur) AS ns, SUM(dur) FILTER (part = 'idle') AS idle_ns
        FROM device_timeline
        GROUP BY rank, device
    )
    SELECT rank, device FROM placed INNER JOIN whole USING (rank, device)
    WHERE placed.ns > whole.ns OR placed.idle_ns > whole.idle_ns
"""
_GAPS_OF_OTHERS = """
    SELECT gap.ts
    FROM gap
    INNER JOIN step ON gap.rank = step.rank AND gap.device = step.device
    WHERE gap.ts >= gpu_ts AND gap.ts < gpu_ts + gpu_dur AND gap.step_id <> step.step_id
"""


def runs_ahead(spans: Sequence[tuple[float, float]]) -> bool:
    """Whether spans overlap those before them by more than 2% of the shorter one of two."""
    for n in range(1, len(spans)):
        overlap = max(end for _, end in spans[:n]) - spans[n][0]
        if overlap * 50 > min(end - begin for begin, end in spans[n - 1 : n + 1]):
            return True
    return False


def steps_in_turn(spans: Sequence[Span]) -> list[Span]:
    """Start and duration of each step on a device: where the host runs ahead, one after the other.

    Args:
        spans: from the first start to the last end of the kernels of each step, in their order.
    """
    if not runs_ahead(spans):
        return [(first, last - first) for first, last in spans]
    found, reached = [], spans[0][0]
    for first, last in spans:
        begin = min(max(first, reached), last)
        found.append((begin, last - begin))
        reached = max(reached, last)
    return found


def steps_add_up(query: Query) -> None:
    """Steps have the spans that their kernels give them, and the rank has the time of its steps."""
    steps = query(_STEPS)
    assert steps == expected_steps(query(_KERNELS))
    assert not query(_ON_ANOTHER_DEVICE)
    if any(one[:2] == after[:2] and sum(one[3:]) > after[3] for one, after in pairwise(steps)):
        return  # time in which two steps overlap a little belongs to the kernels that run
    assert not query(_UNEVEN_STEPS)
    assert not query(_MORE_THAN_THE_DEVICE)
    assert not query(_GAPS_OF_OTHERS)


def expected_steps(kernels: Sequence[Step]) -> list[Step]:
    """The steps of sorted rows: rank, device, number, first start and last end of kernels, ns."""
    spans: dict[tuple[int, int], dict[int, Span]] = {}
    for rank, device, number, first, last in kernels:
        spans.setdefault((rank, device), {})[number] = (first, last)
    return [
        (*place, number, *span)
        for place, of in spans.items()
        for number, span in zip(of, steps_in_turn([*of.values()]), strict=True)
    ]
