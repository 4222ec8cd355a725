"""Reads a file, compressed by gzip, zstd or zip or not, piece by piece."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

import pyarrow as pa
from isal import isal_zlib

from traceql.errors import TraceCorrupt
from traceql.readers.compression import MAGIC_BYTES, Packing, packing_of

_GZIP = 31  # zlib's number for the gzip format
_USUAL_RATIO = 8  # about how much smaller gzip makes a profiler trace
# No trace is nearly as repetitive as this: gzip makes traces 8 to 60 times smaller.
_LARGEST_RATIO = 200
REMAKE = "copy it again or record it again"
_UNSUSPICIOUS_BYTES = 64 << 20  # a small file may be as repetitive as it likes


def pieces(path: Path, size: int) -> Iterator[bytes]:
    """The unpacked content of a file, in pieces of about `size` bytes and never much longer.

    Raises:
        TraceCorrupt: damaged compression, or some that unpacks into so much that it cannot be a
            trace; the message does not name the file.
    """
    with path.open("rb") as file:
        packing = packing_of(file.read(MAGIC_BYTES))
        file.seek(0)
        if packing is None:
            yield from _raw_pieces(file, size)
        else:
            yield from _UNPACK[packing](file, size)


def require_plausible_size(packed_bytes: int, unpacked_bytes: int) -> None:
    """Raises TraceCorrupt if so few bytes unpack into so many that it cannot be a trace."""
    if unpacked_bytes > max(_UNSUSPICIOUS_BYTES, _LARGEST_RATIO * packed_bytes):
        raise TraceCorrupt(
            f"unpacks into more than {_LARGEST_RATIO} times its size, as no trace does; {REMAKE}"
        )


def inflated(packed: bytes) -> bytes:
    """The content of a short text in zlib's format.

    Raises:
        TraceCorrupt: it is damaged, or unpacks into too much.
    """
    opened = isal_zlib.decompressobj()
    try:
        unpacked: bytes = opened.decompress(packed, _UNSUSPICIOUS_BYTES + 1)
    except isal_zlib.IsalError as error:
        raise TraceCorrupt(f"damaged compression ({error}); {REMAKE}") from None
    require_plausible_size(len(packed), len(unpacked))
    if not opened.eof:
        raise TraceCorrupt(f"compressed content ends too early; {REMAKE}")
    return unpacked


def _raw_pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    while piece := file.read(size):
        yield piece


def _gzip_pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The content of a gzip file, which may have several members and zeros at the end."""
    member = None
    unpacked_bytes = 0
    try:
        for packed in _raw_pieces(file, max(1, size // _USUAL_RATIO)):
            left, more = packed, False
            while more or (left := left if member else left.lstrip(b"\0")):
                member = member or isal_zlib.decompressobj(wbits=_GZIP)
                piece = member.decompress(left, 2 * size)
                unpacked_bytes += len(piece)
                require_plausible_size(file.tell(), unpacked_bytes)
                yield piece
                left = member.unused_data or member.unconsumed_tail
                more = len(piece) == 2 * size and not member.eof  # it may hold back what it read
                if member.eof:
                    member = None
        if member:
            raise EOFError("it ends before its end-of-stream marker")
    except (EOFError, isal_zlib.IsalError) as error:
        raise TraceCorrupt(f"damaged or truncated gzip ({error}); {REMAKE}") from None


def _zstd_pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The content of a zstd file, which may have several frames."""
    try:
        with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
            yield from _plausible(file, _raw_pieces(stream, size))
    except OSError as error:
        if "too much memory" in str(error):  # a frame of zstd --long
            raise TraceCorrupt(f"a zstd that cannot be read ({error}); unpack it first") from None
        raise TraceCorrupt(f"damaged or truncated zstd ({error}); {REMAKE}") from None


def _zip_pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The content of the only file in an archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            if len(names) != 1:
                raise TraceCorrupt(
                    f"an archive of {len(names)} files; unpack it and load the traces"
                )
            with archive.open(names[0]) as member:
                yield from _plausible(file, _raw_pieces(member, size))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise TraceCorrupt(f"damaged or truncated zip ({error}); {REMAKE}") from None
    except (NotImplementedError, RuntimeError) as error:  # another method, or encrypted
        raise TraceCorrupt(f"a zip that cannot be read ({error}); unpack it first") from None


def _plausible(packed: BinaryIO, unpacked: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, as long as they are not far too much for what was read of the file."""
    unpacked_bytes = 0
    for piece in unpacked:
        unpacked_bytes += len(piece)
        require_plausible_size(packed.tell(), unpacked_bytes)
        yield piece


_UNPACK = {Packing.GZIP: _gzip_pieces, Packing.ZSTD: _zstd_pieces, Packing.ZIP: _zip_pieces}
