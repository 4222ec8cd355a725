"""How a file is compressed, by its first bytes. Nothing heavy is imported here."""

from enum import Enum


class Packing(Enum):
    """A format of compressed files: how they begin, and how their names end."""

    GZIP = b"\x1f\x8b", ".gz"
    ZSTD = b"\x28\xb5\x2f\xfd", ".zst"
    ZIP = b"PK\x03\x04", ".zip"

    @property
    def magic(self) -> bytes:
        return self.value[0]

    @property
    def suffix(self) -> str:
        return self.value[1]


MAGIC_BYTES = max(len(packing.magic) for packing in Packing)


_SKIPPED = b"\x2a\x4d\x18"  # of a frame that zstd skips, behind a byte from 0x50 to 0x5f


def packing_of(begin: bytes) -> Packing | None:
    """The format of a file that begins with these bytes; None if it is not compressed."""
    if begin[1:4] == _SKIPPED and begin[0] >> 4 == 5:
        return Packing.ZSTD
    return next((packing for packing in Packing if begin.startswith(packing.magic)), None)
