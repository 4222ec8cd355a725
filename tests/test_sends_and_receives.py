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
