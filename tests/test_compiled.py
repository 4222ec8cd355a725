"""Compiled code gives what the Python code gives that it stands for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa
import pytest

from traceql.errors import TraceCorrupt
from traceql.readers.compiled import build
from traceql.readers.dictionary_codes import DistinctValues
from traceql.readers.formats.kineto import kineto_json
from traceql.readers.formats.kineto.gathering import Gathered
from traceql.readers.formats.kineto.kineto_json import KinetoJson
from traceql.readers.formats.kineto.scanner import Scanned, new_scanner
from traceql.readers.formats.kineto.streaming.read import stream_kineto

_SOURCES = Path(build.__file__).parent
pytestmark = pytest.mark.usefixtures("small_files_are_scanned")
_RECORDINGS = [path for name in databases.BUNDLED for path in databases.files(name)[:1]]


@pytest.fixture(scope="module")
def small_files_are_scanned() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto_json, "_SCANNED_BYTES", 0)
        yield


@pytest.mark.parametrize("name", build.NAMES)
def test_module_is_made_of_its_sources(name: str) -> None:
    module = (_SOURCES / f"{name}.wasm").read_bytes()
    assert module.endswith(build.digest(name)), "run `make compiled`"


# ---- events ----


def columns(path: Path, *, by_scanning: bool) -> Any:
    """All that is gathered of a file, or the error."""
    trace = KinetoJson(path)
    try:
        found = Gathered(trace.scanned() if by_scanning else trace)
    except TraceCorrupt as error:
        return str(error)
    slices, points = found.slices, found.instants
    return {
        "slices": [*(getattr(slices, name).tolist() for name in ("ts", "dur", "counted_dur"))],
        "described": [
            getattr(slices, name).to_pylist()
            for name in ("name", "cat", "args", "external_id", "correlation", "activity")
        ],
        "tracks": slices.track.tolist(),
        "instants": [points.ts.tolist(), points.track.tolist(), points.name.to_pylist()],
        "ends": found.flow_ends.table(DistinctValues(), DistinctValues()).to_pylist(),
        "track names": found.tracks.named(found.about_tracks),
        "phases": found.phases,
        "metadata": trace.metadata,
    }


def require_same(path: Path) -> Any:
    wanted = columns(path, by_scanning=False)
    assert columns(path, by_scanning=True) == wanted
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize("path", _RECORDINGS, ids=lambda path: path.name)
def test_recordings_are_scanned_alike(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", 1 << 14)
    assert require_same(path)["phases"]["X"] > 100
    batches = list(KinetoJson(path).scanned())
    scanned = sum(len(batch) for batch in batches if isinstance(batch, Scanned))
    assert scanned > 0.9 * sum(map(len, batches))


def written(folder: Path, events: list[str], *, tail: str = "") -> Path:
    path = folder / "trace.json"
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{",".join(events)}]{tail}}}')
    return path


_PLAIN = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.250, "dur": 2}'
_ODD = [
    '{"ph":"X","name":"a","cat":"cpu_op","pid":1,"tid":2,"ts":5e2,"dur":1}',
    '{"ph":"X","name":"a","cat":"cpu_op","pid":1,"tid":2,"ts":"12.5","dur":1}',
    '{"ph":"X","name":"a","cat":"cpu_op","pid":1,"tid":2,"ts":-3.001,"dur":-1.5}',
    '{"ph":"X","name":"a","pid":1,"tid":2,"ts":1234567890123456.789}',
    '{"ph":"X","name":"a","pid":1,"tid":2,"ts":3,"dur":null}',
    '{"ph":"X","ts":3,"name":null,"cat":7,"pid":"p","tid":1.5}',
    '{"ph":"X","ts":3,"name":"\\u00e9\\n\\"x\\"","pid":true}',
    '{"ph":"X","ts":3,"name":"µs → 中 😀"}',
    '{"ph":"X","ts":3,"n\\u0061me":"escaped key","args":{"Extern\\u0061l id":3}}',
    '{"ph":"X","ts":3,"name":"first","name":"last","args":{"stream":1},"args":{"device":2}}',
    '{"ph":"X","ts":3,"cat":"kernel","args":{"stream":1,"stream":7,"device":null,"bytes":1.0}}',
    '{"ph":"X","ts":3,"cat":"kernel","args":{"grid":[1,2,3],"block":[],"graph node id":-4}}',
    '{"ph":"X","ts":3,"cat":"kernel","args":{"grid":[1,2,3,4],"block":[9999999999]}}',
    '{"ph":"X","ts":3,"cat":"kernel","args":{"External id":"12","correlation":12345678901234567}}',
    '{"ph":"X","ts":3,"args":{"x":[{"y":[[]]},{}],"z":NaN}}',
    '{ \n\t"ph" : "X" , "ts" : 3 ,\r\n "args" : { "bytes" : 5 } }',
    '{"ph":"i","ts":4,"pid":5,"tid":5,"name":"now"}',
    '{"ph":"C","ts":4,"name":"counter","args":{"x":1}}',
    '{"ph":"s","id":3,"ts":1,"pid":0,"tid":7,"name":"ac2g","cat":"ac2g"}',
    '{"ph":"f","id":"0x3","ts":1.5,"pid":9,"name":"ac2g","cat":"ac2g","bp":null}',
    '{"ph":"t","ts":1,"pid":0,"tid":7}',
    "{}",
    '{"ph":"X","ts":3,"pid":1e999}',
    '{"ph":"X","ts":3,"name":{"a":1},"name":"x"}',
]


@pytest.mark.parametrize("event", _ODD)
@pytest.mark.parametrize("size", [16, 100, 1 << 18])
def test_odd_events_are_scanned_alike(
    event: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_json, "_BATCH_BYTES", size)
    path = written(tmp_path, [_PLAIN, event, _PLAIN, _PLAIN, event, _PLAIN], tail=', "x": 1')
    require_same(path)


def test_without_compiled_code_the_tables_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _RECORDINGS[0]
    compiled_tables = tables(path, tmp_path)
    assert new_scanner()
    monkeypatch.setattr("traceql.readers.formats.kineto.scanner.new_instance", lambda name: None)
    assert new_scanner() is None
    assert tables(path, tmp_path) == compiled_tables


def tables(path: Path, folder: Path) -> dict[str, Any]:
    parts = list(stream_kineto(path, folder=folder, memory_bytes=1 << 30))
    return {
        name: pa.concat_tables([part.tables[name] for part in parts]).to_pylist()
        for name in parts[0].tables
    }
