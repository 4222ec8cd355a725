"""Compressed files are unpacked piece by piece, and only as far as a trace can go."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import traces

import traceql
from traceql.database.loading.load import load
from traceql.errors import TraceCorrupt
from traceql.readers.unpacked import pieces

_EVENT = b'{"ph":"X","name":"op","pid":1,"tid":1,"ts":1,"dur":1},'
_LARGE = 70 << 20  # more than a file may hold that is smaller than a 200th of it


def as_gzip(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, 6))


def as_zstd(path: Path, content: bytes) -> None:
    """Two frames, as some tools write them for each block."""
    half = len(content) // 2
    codec = pa.Codec("zstd")
    frames = [codec.compress(part, asbytes=True) for part in (content[:half], content[half:])]
    path.write_bytes(b"".join(frames))


def as_zip(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("trace")
        archive.writestr("trace/rank0.json", content)


_PACKED = [("zst", as_zstd), ("zip", as_zip)]


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "pack"), [("gz", as_gzip), *_PACKED])
def test_a_file_that_unpacks_into_far_too_much_is_refused(
    ending: str, pack: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    for content in (bytes(_LARGE), b'{"traceEvents":[' + _EVENT * (_LARGE // len(_EVENT))):
        pack(path := tmp_path / f"rank0.json.{ending}", content)
        taken: list[int] = []
        with pytest.raises(TraceCorrupt, match="unpacks into more than 200 times its size"):
            taken.extend(map(len, pieces(path, 1 << 18)))
        assert sum(taken) <= 65 << 20


@pytest.mark.parametrize(("ending", "pack"), [("gz", as_gzip), *_PACKED])
def test_a_small_file_is_unpacked_in_pieces_however_repetitive_it_is(
    ending: str, pack: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    content = _EVENT * 80_000
    pack(path := tmp_path / f"rank0.json.{ending}", content)
    found = list(pieces(path, 1000))
    assert b"".join(found) == content
    assert max(map(len, found)) <= 2000


def test_a_frame_that_zstd_skips_may_come_first(tmp_path: Path) -> None:
    as_zstd(path := tmp_path / "rank0.json.zst", b"{}" * 5000)
    path.write_bytes(b"\x5a\x2a\x4d\x18\4\0\0\0abcd" + path.read_bytes())
    assert b"".join(pieces(path, 1000)) == b"{}" * 5000


def test_zstd_that_needs_much_memory_is_to_be_unpacked_first(tmp_path: Path) -> None:
    (path := tmp_path / "rank0.json.zst").write_bytes(b"\x28\xb5\x2f\xfd\x00\xf8" + bytes(40))
    with pytest.raises(TraceCorrupt, match=r"a zstd that cannot be read .*; unpack it first"):
        list(pieces(path, 1000))


@pytest.mark.parametrize(("ending", "pack"), _PACKED)
def test_zstd_and_zip_that_end_too_early_are_refused(
    ending: str, pack: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    pack(path := tmp_path / f"rank0.json.{ending}", bytes(range(256)) * 4096)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TraceCorrupt, match="damaged or truncated"):
        list(pieces(path, 1000))


def test_an_archive_of_several_files_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "traces.json.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rank0.json", b"{}")
        archive.writestr("rank1.json", b"{}")
    with pytest.raises(TraceCorrupt, match="an archive of 2 files; unpack it"):
        list(pieces(path, 1000))


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "pack"), _PACKED)
def test_packed_traces_in_a_folder_are_loaded(
    ending: str, pack: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    plain = traces.write(
        tmp_path / "plain.json", traces.kernel(ts=0, dur=5), traces.kernel(ts=9, dur=3)
    )
    pack(tmp_path / f"rank0.json.{ending}", plain.read_bytes())
    plain.unlink()
    load(tmp_path, tmp_path / "x.duckdb")
    with traceql.open(tmp_path / "x.duckdb") as trace:
        found = trace.sql("SELECT ts, dur FROM kernel ORDER BY ts").fetchall()
    assert found == [(0, 5000), (9000, 3000)]
