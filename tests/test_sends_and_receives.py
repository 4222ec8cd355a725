"""Sends that end before the next stage receives: which receive belongs to which send."""

import numpy as np
import pytest

from traceql.analysis.collectives.operation_matching import Series, shared_numbers

STEPS = 30
SEND_NS, RECEIVE_NS = 5_000, 6_000
APART_NS = 10_000  # two tensors are sent in a row


def series(rank: int, begins: list[int], ends: list[int]) -> Series:
    count = len(begins)
    equal = np.zeros(count, np.int64)
    return Series(
        rank=rank,
        kernel_id=np.arange(count),
        ts=np.array(begins),
        end_ts=np.array(ends),
        key=equal,
        unit=-1 - np.arange(count),
        kind=equal,
        sequence=np.full(count, -1),
        synchronising=np.zeros(count, np.bool_),
    )


def pipeline(sender: int, receiver: int) -> tuple[Series, Series]:
    """Two tensors a step. In every third step the receiver waits; else it comes 0.7 ms later."""
    sends, receives = [], []
    for step in range(STEPS):
        begin = step * 9_000_000 + (step % 7) * 350_000
        is_waiting = step % 3 == 0
        for tensor in range(2):
            sent = begin + tensor * APART_NS
            sends.append((sent, sent + SEND_NS))
            if is_waiting and tensor == 0:
                receives.append((sent - 400_000, sent + SEND_NS + 2_000))
            else:
                later = 3_000 if is_waiting else 700_000
                receives.append((sent + later, sent + later + RECEIVE_NS))
    return (
        series(sender, *map(list, zip(*sends, strict=True))),
        series(receiver, *map(list, zip(*receives, strict=True))),
    )


@pytest.mark.parametrize(("sender", "receiver"), [(0, 2), (2, 0)], ids=["forward", "backward"])
@pytest.mark.parametrize("cut", [0, 5], ids=["whole", "receiver begins later"])
def test_nothing_is_received_before_it_is_sent(sender: int, receiver: int, cut: int) -> None:
    sends, receives = pipeline(sender, receiver)
    if cut:
        receives = series(receiver, receives.ts[cut:].tolist(), receives.end_ts[cut:].tolist())
    ranks = {one.rank: one for one in sorted((sends, receives), key=lambda one: one.rank)}
    numbers = {one.rank: found.tolist() for one, found in shared_numbers(ranks, sender=sender)}
    assert numbers[sender] == list(range(2 * STEPS))
    assert numbers[receiver] == list(range(cut, 2 * STEPS))


def steady(sender: int, receiver: int, *, late_ns: int, period_ns: int) -> tuple[Series, Series]:
    """One send each period, and its receive so much later by the receiver's own clock."""
    sends = [(n * period_ns, n * period_ns + SEND_NS) for n in range(60)]
    receives = [(begin + late_ns, end + late_ns) for begin, end in sends]
    return (
        series(sender, *map(list, zip(*sends, strict=True))),
        series(receiver, *map(list, zip(*receives, strict=True))),
    )


@pytest.mark.parametrize("late_ns", [-2_000_000, -90_000, -SEND_NS - 1, 7_000])
def test_clocks_that_differ_by_less_than_half_a_period_change_nothing(late_ns: int) -> None:
    sends, receives = steady(0, 2, late_ns=late_ns, period_ns=5_000_000)
    numbers = {
        n.rank: found.tolist() for n, found in shared_numbers({0: sends, 2: receives}, sender=0)
    }
    assert numbers[2] == list(range(60))
