"""Compressed files are unpacked piece by piece, and only as far as a trace can go."""

import gzip
from pathlib import Path

import pytest

from traceql.errors import TraceCorrupt
from traceql.reader.unpacked import pieces

_EVENT = b'{"ph":"X","name":"op","pid":1,"tid":1,"ts":1,"dur":1},'
_LARGE = 70 << 20  # more than a file may hold that is smaller than a 200th of it


def gzipped(folder: Path, start: bytes, repeated: bytes, size: int = _LARGE) -> Path:
    path = folder / "rank0.json.gz"
    with gzip.open(path, "wb", 6) as file:
        file.write(start)
        block = repeated * ((1 << 20) // len(repeated))
        for _ in range(size // len(block)):
            file.write(block)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        (b'{"traceEvents":[', _EVENT),
        (b'{"traceEvents":[{"name":"', b"a"),
        pytest.param(b"", b"[", marks=pytest.mark.slow),
        pytest.param(b"", b"\0", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_unpacks_into_far_too_much_is_refused(
    start: bytes, repeated: bytes, tmp_path: Path
) -> None:
    path = gzipped(tmp_path, start, repeated)
    taken: list[int] = []
    with pytest.raises(TraceCorrupt, match="unpacks into more than 200 times its size"):
        taken.extend(map(len, pieces(path, 1 << 18)))
    assert sum(taken) <= 64 << 20


def test_a_piece_is_never_much_longer_than_asked_for(tmp_path: Path) -> None:
    path = gzipped(tmp_path, b"", b"a", size=4 << 20)
    sizes = [len(piece) for piece in pieces(path, 1000)]
    assert (sum(sizes), max(sizes)) == (4 << 20, 2000)


def test_a_small_file_may_be_as_repetitive_as_it_likes(tmp_path: Path) -> None:
    path = gzipped(tmp_path, b"", _EVENT, size=32 << 20)
    assert sum(map(len, pieces(path, 1 << 20))) > 200 * path.stat().st_size
