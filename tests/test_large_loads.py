"""What a load of large files asks for before it starts, and the limits that it is given."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import traces
from command_line import refusal

from traceql.database.loading import load
from traceql.errors import DatabaseError
from traceql.readers.compression import Packing
from traceql.readers.contract import ReadMode, is_streamed
from traceql.util import process
from traceql.util.process import memory_bytes

FROM = 400 << 20  # bytes of JSON
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return traces.write(tmp_path / "trace.json", traces.kernel(ts=0, dur=5))


def of_size(path: Path, size: int, begin: bytes = b"{") -> Path:
    """A file without content, which takes no room on the disk."""
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(size)
    return path


def test_large_json_is_streamed(tmp_path: Path) -> None:
    for size, wanted in ((FROM - (1 << 20), False), (FROM, True)):
        assert is_streamed(ReadMode.AUTO, of_size(tmp_path / "x.json", size), FROM) is wanted
    packed = of_size(tmp_path / "x.json.gz", 40 << 20, Packing.GZIP.magic)
    assert is_streamed(ReadMode.AUTO, packed, FROM)
    assert not is_streamed(ReadMode.PERFETTO, packed, FROM)


def test_room_for_a_large_load_alone_is_reported_and_required(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = of_size(tmp_path / "x.json", 10 << 30)
    reported: list[tuple[str, int, int]] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 40 << 30))
    load.require_disk_space([large], tmp_path, lambda *what: reported.append(what))
    ((what, needed, free),) = reported
    assert (what, needed > 10 << 30, free) == ("disk", True, 40 << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 1))
    load.require_disk_space([trace], tmp_path, lambda *_: pytest.fail("reported"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 9 << 30))
    with pytest.raises(DatabaseError, match=r"needs about .* GiB of disk .*, where 9.0 GiB are"):
        load.require_disk_space([large], tmp_path, lambda *_: None)


def test_sizes_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "machine_bytes", lambda: 8 * 10**9)
    sizes = {"4GB": 4 * 10**9, "2g": 2 * 10**9, "1.5 GiB": 3 << 29, "9999999TB": 8 * 10**9}
    assert {given: memory_bytes(given) for given in sizes} == sizes  # no more than there is


@pytest.mark.parametrize("given", ["", "4 apples", "-1GB", "100MB"])
def test_what_is_no_size_of_memory_is_refused_in_one_line(
    given: str, trace: Path, tmp_path: Path
) -> None:
    database = tmp_path / "x.duckdb"
    assert "memory" in refusal("load", trace, "-o", database, "--memory", given)
    assert not database.exists()


def test_a_container_limits_the_usual_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = memory_bytes(None)
    (tmp_path / "limit").write_text(f"{1 << 30}\n")
    (tmp_path / "unlimited").write_text("max\n")
    monkeypatch.setattr(process, "_GROUP_LIMITS", (str(tmp_path / "unlimited"),))
    assert memory_bytes(None) >= whole
    monkeypatch.setattr(process, "_GROUP_LIMITS", (str(tmp_path / "limit"),))
    assert memory_bytes(None) == 1 << 29


@pytest.mark.slow
def test_a_load_with_little_memory_answers(trace: Path, tmp_path: Path) -> None:
    loaded = load.load(trace, tmp_path / "x.duckdb", reader="stream", memory="300MB")
    assert loaded.added == [trace]
