"""What gzip holds, with Python's zlib."""

import zlib

_PIECE = 1 << 20
_MOST_BYTES = 64 << 20
_GZIP = 31  # zlib's number for the gzip format


def unpacked(content: bytes) -> bytes | None:
    """The text in a gzip file of one or more members; None if it is not certain.

    Pieces of a mebibyte of nothing but spaces are left out: they mean nothing in JSON.
    """
    parts: list[bytes] = []
    while content := content.lstrip(b"\0"):
        member = zlib.decompressobj(_GZIP)
        try:
            while not member.eof:
                piece = member.decompress(content, _PIECE)
                content = member.unconsumed_tail
                if not piece and not content and not member.eof:
                    return None
                if piece.strip(b" ") or len(piece) < _PIECE:
                    parts.append(piece)
        except zlib.error:
            return None
        content = member.unused_data
        if sum(map(len, parts)) > _MOST_BYTES:
            return None
    return b"".join(parts)
