"""The packets of a native Perfetto trace, one by one.

A trace is a sequence of packets, each preceded by its length. The trace processor does not report a
file that ends within a packet, so this does.
"""

from collections.abc import Iterable, Iterator

from traceql.errors import TraceCorrupt
from traceql.readers.unpacked import ANEW
from traceql.util.protobuf.wire import DELIMITED, tag, varint_at

(_PACKET,) = tag(1, DELIMITED)  # field 1 of the message Trace


def packets(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of each packet of a trace, which is given in pieces of any size.

    Raises:
        TraceCorrupt: the trace is damaged, or ends within a packet; the message does not name the
            file.
    """
    held: list[bytes] = []  # the beginning of a packet, which goes on in the next piece
    held_bytes, wanted_bytes, position = 0, 1, 0
    for piece in pieces:
        held.append(piece)
        held_bytes += len(piece)
        if held_bytes < wanted_bytes:
            continue
        text, at = b"".join(held), 0
        wanted_bytes = 1
        try:
            while at < len(text):
                if text[at] != _PACKET:
                    raise TraceCorrupt(_damaged(position + at))
                size, body = varint_at(text, at + 1)
                end = body + size
                if end > len(text):
                    wanted_bytes = end - at
                    break
                yield text[body:end]
                at = end
        except IndexError:  # the text ends within a length
            wanted_bytes = len(text) - at + 1
        except ValueError:
            raise TraceCorrupt(_damaged(position + at)) from None
        held, held_bytes, position = [text[at:]], len(text) - at, position + at
    if held_bytes:
        raise TraceCorrupt(f"truncated within a packet; {ANEW}")


def _damaged(byte: int) -> str:
    return f"not a trace, or damaged at byte {byte}; {ANEW}"
