"""Compresses packets: a packet may hold others in deflated form.

Perfetto's own tools write such traces too, so everything that reads a trace can read them.
"""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket

_TOGETHER = 1 << 21  # bytes of packets that are compressed together, at least
_LEVEL = 1  # the fastest; the next ones save little of what columns of similar packets leave
_WAITING = 4  # blocks that may wait to be written, so that memory stays bounded


def compressed(packets: Iterable[bytes]) -> Iterator[bytes]:
    """The same packets in the same order; a thread compresses while the next ones are made."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting: deque[Future[bytes]] = deque()
        for block in _blocks(packets):
            waiting.append(thread.submit(_packed, block))
            if len(waiting) > _WAITING:
                yield waiting.popleft().result()
        for last in waiting:
            yield last.result()


def _blocks(packets: Iterable[bytes]) -> Iterator[bytes]:
    block, size = list[bytes](), 0
    for packet in packets:
        block.append(packet)
        size += len(packet)
        if size >= _TOGETHER:
            yield b"".join(block)
            block, size = [], 0
    yield b"".join(block)


def _packed(block: bytes) -> bytes:
    packet = TracePacket(compressed_packets=zlib.compress(block, _LEVEL))
    return bytes(Trace(packet=[packet]).SerializeToString())
