"""The registry finds readers, picks the right one for a file, and takes a new one as a folder."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import traceql
import traceql.readers.dialects
import traceql.readers.formats
from traceql.errors import DefinitionInvalid, TraceNotFound
from traceql.readers.dialects.registry import categories
from traceql.readers.registry import reader_of, suffixes

_JSON, _PACKET = b' {"traceEvents": []}', b"\x0a\x00"


@pytest.mark.parametrize(
    ("name", "content", "reader"),
    [
        ("rank0.json", b"no JSON", "kineto"),
        ("rank0.perfetto-trace.gz", gzip.compress(_PACKET, mtime=0), "perfetto"),
        ("rank0.pftrace.gz", gzip.compress(_PACKET, mtime=0)[:-9], "perfetto"),
        ("rank0.pftrace", b"", "perfetto"),
        ("rank0.pftrace", gzip.compress(b"[]", mtime=0), "kineto"),
        ("rank0.trace", _PACKET, "kineto"),
    ],
)
def test_a_file_is_recognised_by_its_name_and_first_bytes(
    tmp_path: Path, name: str, content: bytes, reader: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert reader_of(path).name == reader


def test_a_folder_without_traces_is_refused_with_each_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFound) as error:
        traceql.load(tmp_path, tmp_path / "run.duckdb")
    assert str(error.value) == (
        f"{tmp_path}: no traces in this folder; the names of traces end with .json, .db, .pftrace, "
        ".perfetto-trace, .csv, .sqlite or .nsys-rep, perhaps followed by .gz"
    )


def test_finding_readers_imports_nothing_heavy() -> None:
    code = (
        "import sys; from traceql.readers.registry import suffixes; suffixes(); "
        "heavy = {'duckdb', 'msgspec', 'numpy', 'perfetto', 'pyarrow', 'wasmtime'}; "
        "print(heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.fixture
def toy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A .toy file in a folder of its own, and a reader for it among the readers."""
    reader = tmp_path / "readers" / "toy" / "__init__.py"
    reader.parent.mkdir(parents=True)
    reader.write_text(TOY_READER)
    monkeypatch.setattr(
        traceql.readers.formats,
        "__path__",
        [*traceql.readers.formats.__path__, str(tmp_path / "readers")],
    )
    monkeypatch.delitem(sys.modules, "traceql.readers.formats.toy", raising=False)
    path = tmp_path / "run" / "rank0.toy"
    path.parent.mkdir()
    path.write_text("gemm_kernel 1000 50\nflash_fwd_kernel 1100 30\n")
    return path


def change_reader(toy_file: Path, old: str, new: str) -> None:
    """Replaces a piece of the toy reader's source."""
    reader = toy_file.parents[1] / "readers" / "toy" / "__init__.py"
    source = reader.read_text()
    assert old in source
    reader.write_text(source.replace(old, new))


def add_dialect(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, **modules: str) -> None:
    """A dialect among the dialects. Each test needs a name of its own: Python keeps modules."""
    dialect = folder / "dialects" / name
    dialect.mkdir(parents=True)
    for module, source in {"__init__": "", **modules}.items():
        (dialect / f"{module}.py").write_text(source)
    monkeypatch.setattr(
        traceql.readers.dialects,
        "__path__",
        [*traceql.readers.dialects.__path__, str(folder / "dialects")],
    )


@pytest.mark.slow
def test_a_new_reader_is_one_new_folder(toy_file: Path, tmp_path: Path) -> None:
    assert ".toy" in suffixes()
    database = tmp_path / "toy.duckdb"
    traceql.load([toy_file.parent], database)
    with traceql.open(database) as trace:
        assert trace.sql("SELECT reader, format FROM trace").fetchall() == [("toy", "text")]
        kernels = trace.sql("SELECT name, ts, dur FROM kernel ORDER BY ts").fetchall()
        assert kernels == [("gemm_kernel", 0, 50), ("flash_fwd_kernel", 100, 30)]
        checks = trace.sql("SELECT * FROM ledger").rows()
    assert [check for check in checks if check["ok"] is False] == []
    assert sum(check["ok"] is True for check in checks) >= 3


@pytest.mark.slow
def test_a_new_dialect_has_categories_and_reads_the_metadata_of_its_files(
    toy_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = (
        "from traceql.readers.dialects.facts import FileFacts\n\n\n"
        "def facts(metadata):\n"
        "    return FileFacts(rank=3, world_size=8, job_source='toy box',\n"
        "        base_time_ns=metadata['zero'], device_names={0: 'Toy GPU'})\n"
    )
    vocabulary = 'CATEGORIES = {"toy work": "kernel"}'
    add_dialect(tmp_path, monkeypatch, "boxes", vocabulary=vocabulary, metadata=metadata)
    change_reader(toy_file, 'dialect="pytorch"', 'dialect="boxes"')
    change_reader(toy_file, '"cat": "kernel"', '"cat": "Toy Work"')
    items = "for name, schema in SCHEMAS.items()\n        }"
    change_reader(toy_file, items, f"{items},\n        {{'zero': 5_000}}")
    toy_file = toy_file.rename(toy_file.with_name("one.toy"))
    traceql.load([toy_file], tmp_path / "toy.duckdb")
    with traceql.open(tmp_path / "toy.duckdb") as trace:
        facts = trace.sql("SELECT dialect, rank, world_size, device_name, base_time_ns FROM trace")
        # The first kernel begins 1,000 ns after the file's zero.
        assert facts.fetchall() == [("boxes", 3, 8, "Toy GPU", 6_000)]
        kernels = trace.sql("SELECT name, category FROM kernel ORDER BY ts").fetchall()
        assert kernels == [("gemm_kernel", "gemm"), ("flash_fwd_kernel", "attention")]
        source = trace.sql("SELECT note FROM ledger WHERE check_name = 'rank of world size'")
        assert source[0]["note"].startswith("rank from toy box")


@pytest.mark.parametrize(
    ("vocabulary", "said"),
    [
        ('CATEGORIES = {"kernel": "kernle"}', "no kind of event 'kernle'"),
        ("CATEGORIES = {", "has no CATEGORIES: SyntaxError"),
    ],
)
def test_a_wrong_vocabulary_is_refused_in_one_line(
    vocabulary: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"wrong{abs(hash(vocabulary))}"
    add_dialect(tmp_path, monkeypatch, name, vocabulary=vocabulary)
    with pytest.raises(traceql.TraceqlError, match=said) as error:
        categories(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("from pathlib import Path", "import nothing", r"formats\.toy: .* named 'nothing'"),
        ("READER = Reader(", "OTHER = Reader(", r"READER from .*\.formats\.toy: Attribute"),
        ("read=_read,", "read=_read, is_fallback=True,", "the fallback .*, not kineto, toy"),
        ('name="toy"', 'name="kineto"', "two readers have the name 'kineto'"),
    ],
)
def test_a_wrong_reader_is_refused_in_one_line(
    old: str, new: str, message: str, toy_file: Path
) -> None:
    change_reader(toy_file, old, new)
    with pytest.raises(DefinitionInvalid, match=message) as error:
        reader_of(toy_file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("in SCHEMAS.items()", "in SCHEMAS.items() if name != 'flow'", "table 'flow' is missing"),
        ("schema=schema)", "schema=schema).select([0])", "table 'slice': a column is missing"),
        ('dialect="pytorch"', 'dialect="klingon"', "no dialect 'klingon'"),
    ],
)
def test_wrong_tables_of_a_reader_are_refused_in_one_line(
    old: str, new: str, message: str, toy_file: Path, tmp_path: Path
) -> None:
    change_reader(toy_file, old, new)
    with pytest.raises(traceql.TraceqlError, match=message) as error:
        traceql.load([toy_file.parent], tmp_path / "toy.duckdb")
    assert "\n" not in str(error.value)


TOY_READER = '''
"""The reader of .toy files: a GPU kernel per line, `name ts dur`, in ns."""

from pathlib import Path

from traceql.readers.contract import Reader


def _recognises(path):
    return path.name.endswith(".toy")


def _read(path, *, trace_processor):
    import pyarrow as pa

    from traceql.readers.tables import SCHEMAS, TraceTables

    kernels = [line.split() for line in path.read_text().splitlines()]
    slices = [
        {
            "index": index, "cat": "kernel", "name": name, "ts": int(ts), "dur": int(dur),
            "track": 0, "depth": 0,
        }
        for index, (name, ts, dur) in enumerate(kernels)
    ]
    rows = {
        "slice": slices,
        "activity": [{"index": s["index"], "device": 0, "stream": 0} for s in slices],
        "track": [{"track": 0, "pid": "0", "tid": "0", "process_name": "toy GPU"}],
        "count": [
            {
                "phase": "slice", "cat": "kernel", "events": len(kernels),
                "dur": sum(int(dur) for _, _, dur in kernels),
            }
        ],
    }

    def column(name, field):
        values = [row.get(field.name) for row in rows.get(name, [])]
        if pa.types.is_dictionary(field.type):
            return pa.array(values, field.type.value_type).dictionary_encode()
        return pa.array(values, field.type)

    return TraceTables(
        {
            name: pa.table([column(name, field) for field in schema], schema=schema)
            for name, schema in SCHEMAS.items()
        }
    )


READER = Reader(
    name="toy",
    format="text",
    suffixes=(".toy",),
    dialect="pytorch",
    recognises=_recognises,
    read=_read,
)
'''
