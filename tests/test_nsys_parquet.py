"""The export of Nsight Systems in Parquet files: the same tables as in SQLite."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nsys_samples import FOLDER, in_memory

import traceql
from traceql.database.loading.discovery import trace_files
from traceql.errors import TraceqlError

NAMES = ("nccl-payloads", "qwen3-8b-2layers-nvtx-layers", "two-processes-graph-whole")
_UNSIGNED = {"globalPid", "globalTid", "correlationId", "contextId", "streamId", "domainId"}
_ALL = (
    "SELECT * EXCLUDE (path, sha256, size_bytes) FROM trace ORDER BY rank",
    *(f"SELECT * FROM {table} ORDER BY ALL" for table in ("slice", "kernel", "instant", "counter")),
)


def parquet_export(tmp_path: Path, name: str) -> Path:
    """A folder as `nsys export --type parquetdir` writes it, with its types.

    Texts are of a type that has to be UTF-8, but payloads and some names are not.
    """
    folder = tmp_path / f"{name}.parquetdir"
    folder.mkdir()
    with in_memory(FOLDER / f"{name}.sqlite.gz") as con:
        con.text_factory = bytes
        tables = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            cursor = con.execute(f"SELECT * FROM {table.decode()}")
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            columns = {
                name: column([row[at] for row in rows], name) for at, name in enumerate(names)
            }
            pq.write_table(pa.table(columns), folder / f"{table.decode()}.parquet")
    return folder


def column(values: list[Any], name: str) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if bytes in kinds:
        offsets = pa.array(values, pa.large_binary())
        return pa.LargeStringArray.from_buffers(
            len(offsets), offsets.buffers()[1], offsets.buffers()[2], offsets.buffers()[0]
        )
    if float in kinds:
        return pa.array(values, pa.float64())
    return pa.array(values, pa.uint64() if name in _UNSIGNED else pa.int64())


def tables(database: Path) -> list[list[dict[str, Any]]]:
    with traceql.open(database) as trace:
        return [trace.select(sql).rows() for sql in _ALL]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_both_forms_of_an_export_are_the_same_in_the_database(tmp_path: Path, name: str) -> None:
    traceql.load(FOLDER / f"{name}.sqlite.gz", tmp_path / "sqlite.duckdb")
    traceql.load(parquet_export(tmp_path, name), tmp_path / "parquet.duckdb")
    assert tables(tmp_path / "parquet.duckdb") == tables(tmp_path / "sqlite.duckdb")


def test_a_folder_of_folders_and_a_file_of_one_are_found(tmp_path: Path) -> None:
    """One file stands for each folder: that of its kernels, which no other recording has too."""
    folders = [parquet_export(tmp_path, name) for name in NAMES[:2]]
    expected = [folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet" for folder in folders]
    assert trace_files([tmp_path]) == expected
    assert trace_files([folders[0]]) == expected[:1]
    assert trace_files([folders[0] / "NVTX_EVENTS.parquet", folders[0]]) == expected[:1]


def test_a_folder_without_texts_is_told_what_is_missing(tmp_path: Path) -> None:
    folder = parquet_export(tmp_path, NAMES[0])
    (folder / "StringIds.parquet").unlink()
    for path in (folder, tmp_path, folder / "NVTX_EVENTS.parquet"):
        with pytest.raises(TraceqlError, match=r"StringIds\.parquet is missing"):
            traceql.load(path, tmp_path / "x.duckdb")
    assert not (tmp_path / "x.duckdb").exists()


def test_other_parquet_files_are_no_export(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "kernel.parquet")
    with pytest.raises(TraceqlError, match="no traces in this folder"):
        traceql.load(tmp_path, tmp_path / "x.duckdb")


def test_a_damaged_table_is_told_by_its_name(tmp_path: Path) -> None:
    folder = parquet_export(tmp_path, NAMES[1])
    damaged = folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    with pytest.raises(
        TraceqlError, match=r"CUPTI_ACTIVITY_KIND_RUNTIME\.parquet: damaged Parquet"
    ):
        traceql.load(folder, tmp_path / "x.duckdb")
    assert not (tmp_path / "x.duckdb").exists()
