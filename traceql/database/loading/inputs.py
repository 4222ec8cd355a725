"""A user's inputs besides traces: the configuration of the model, and peaks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import duckdb
from msgspec import Meta, Struct

from traceql.analysis.layers.roles import families as layer_families
from traceql.analysis.peaks.rows import PeakRow, peak_rows
from traceql.database.loading.discovery import MODEL_CONFIG, RUN, folders_beside
from traceql.database.loading.run_directory import (
    JsonDocument,
    RunDirectory,
    checked,
    json_document,
    parsed,
)
from traceql.errors import ModelConfigInvalid, PeaksInvalid
from traceql.util.files import Unusable, path_text, read_text


class ModelConfig(Struct, frozen=True):
    """The values that are read from a model's config.json."""

    model_type: str
    num_hidden_layers: Annotated[int, Meta(ge=1, le=100_000)]
    hidden_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


# Keys of a multimodal model that apply to its text_config too.
_COMMON = (
    *("quantization_config", "compression_config", "dtype", "torch_dtype"),
    "tie_word_embeddings",
)
_TEXT = "text_config"
_Described = tuple[ModelConfig, dict[str, Any]]  # with its JSON object


def write_model_config(
    con: duckdb.DuckDBPyConnection,
    given: Path | None,
    traces: Sequence[Path],
    runs: Mapping[Path, RunDirectory],
) -> None:
    """Fills `model_config` from the given file, or else from run.json or config.json.

    Raises:
        ModelConfigInvalid: the given file cannot be read or does not describe a model.
    """
    found = (given, _given(given)) if given else next(_beside(traces, runs), None)
    if found is None:
        return
    path, (config, document) = found
    families = [g.name for g in layer_families() if config.model_type in g.model_types]
    # NaN and Infinity become null: JSON does not have them.
    plain = json.loads(json.dumps(document), parse_constant=lambda _: None)
    sizes = [config.model_type, config.num_hidden_layers, config.hidden_size]
    row = [*sizes, families, path_text(path), json.dumps(plain)]
    con.execute("DELETE FROM model_config")
    con.execute("INSERT INTO model_config VALUES (?, ?, ?, ?, ?, ?)", row)


def described_model(document: Any) -> _Described | None:
    """The model in a document, at any depth; the text decoder of a multimodal model.

    Raises Unusable if a value has a wrong type.
    """
    objects = [document]
    while objects:
        one = objects.pop()
        if not isinstance(one, dict):
            continue
        if one.get("model_type") is not None and one.get("num_hidden_layers") is not None:
            return checked(one, ModelConfig), one
        objects += reversed(one.values())
        if isinstance(text := one.get(_TEXT), dict):
            objects.append({name: one[name] for name in _COMMON if name in one} | text)
    return None


def _given(path: Path) -> _Described:
    try:
        config = described_model(json_document(path).value)
    except Unusable as error:
        raise ModelConfigInvalid(
            f"cannot read the model configuration {path}: {error}; give the model's config.json"
        ) from None
    if config is None:
        raise ModelConfigInvalid(
            f"{path} has no model_type and num_hidden_layers; give the model's config.json"
        )
    return config


def _beside(
    traces: Sequence[Path], runs: Mapping[Path, RunDirectory]
) -> Iterator[tuple[Path, _Described]]:
    """The models in files beside traces; unusable files are skipped."""
    known = {run.path / RUN: run.document.value for run in runs.values()}
    folders = dict.fromkeys(folder for trace in traces for folder in folders_beside(trace))
    for path in (folder / name for folder in folders for name in (RUN, MODEL_CONFIG)):
        try:
            document = known[path] if path in known else json_document(path).value
            config = described_model(document)
        except Unusable:
            continue
        if config:
            yield path, config


SCHEMA_VERSION = 2  # version 1 lacks GPUs of copies, copies of the host, and sources
_Count = Annotated[int, Meta(ge=1, lt=2**62)]
_Size = Annotated[int, Meta(ge=1, lt=2**31)]
_Ns = Annotated[float, Meta(ge=1, le=1e15)]  # no kernel and no operation takes less than 1 ns
_Spread = Annotated[float, Meta(ge=0, le=1e15)]
_Mask = Annotated[int, Meta(ge=0, lt=2**62)]
_Gpu = Annotated[int, Meta(ge=0, lt=2**31)]


class _Measurement(Struct, frozen=True, kw_only=True):
    """A duration: the median and the median absolute deviation, ns."""

    ns: _Ns
    mad_ns: _Spread | None = None
    sm_clock_mhz: _Count | None = None
    throttle_reasons: _Mask | None = None


class _Ceiling(_Measurement, frozen=True, kw_only=True):
    fastest_ns: _Ns | None = None

    def __post_init__(self) -> None:
        if self.fastest_ns is not None and self.fastest_ns > self.ns:
            raise ValueError("`fastest_ns` is above `ns`, the median")


class _Kernel(_Measurement, frozen=True, kw_only=True):
    period_ns: _Ns | None = None


class Memory(_Ceiling, frozen=True, kw_only=True):
    """Reading, or copying, where bytes are read and written; traceql measures the first GPU."""

    op: Literal["copy", "read"]
    bytes: _Count
    gpu: _Gpu | None = None
    source: str | None = None


class Product(_Ceiling, frozen=True, kw_only=True):
    dtype: Literal["bf16", "fp8", "int8", "fp4"]
    m: _Size
    k: _Size
    n: _Size
    role: str | None = None
    load: Literal["burst", "sustained"] | None = None


class Collective(_Measurement, frozen=True, kw_only=True):
    """A collective of all ranks, or a copy from one GPU to another.

    `bytes` is the size of the whole buffer; of a copy or a send, that of one direction.
    """

    op: Literal[
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "peer_copy",
        "peer_copy_both",
    ]  # fmt: skip
    ranks: Annotated[int, Meta(ge=2, lt=2**31)]
    bytes: _Count
    algorithm: Literal["nccl", "custom", "copy", "copy_kernel"]
    kernel_ns: _Ns | None = None
    fastest_ns: _Ns | None = None
    from_gpu: _Gpu | None = None
    to_gpu: _Gpu | None = None
    source: str | None = None


class HostCopy(_Measurement, frozen=True, kw_only=True):
    """A copy between the memory of the host and that of a GPU; `bytes` counts one direction."""

    op: Literal["to_gpu", "from_gpu", "to_gpu_both", "from_gpu_both"]
    gpu: _Gpu
    bytes: _Count
    algorithm: Literal["copy", "copy_kernel"]
    source: str | None = None


class Source(Struct, frozen=True, kw_only=True):
    """A file of another program with measurements."""

    program: str
    file: str
    version: str | None = None
    started: str | None = None


class PeaksDocument(Struct, frozen=True, kw_only=True):
    """The measured ceilings of GPUs of one name in a machine."""

    schema_version: Annotated[int, Meta(ge=1)]
    device_name: Annotated[str, Meta(min_length=1)]
    measured: str
    memory_bytes: _Count | None = None
    l2_bytes: _Count | None = None
    kernel: _Kernel | None = None
    memory: list[Memory]
    products: list[Product]
    collectives: list[Collective]
    host_copies: list[HostCopy] = []
    skipped: list[str] = []
    sources: list[Source] = []


def peaks_document(found: str) -> tuple[JsonDocument, PeaksDocument]:
    """The contents of a peaks.json.

    Raises Unusable if it is not a peaks.json, or a newer version of traceql wrote it.
    """
    document = parsed(found)
    if not isinstance(document.value, dict) or "schema_version" not in document.value:
        raise Unusable("it has no schema_version; give a peaks.json of traceql experiment peaks")
    peaks = checked(document.value, PeaksDocument)
    if peaks.schema_version > SCHEMA_VERSION:
        raise Unusable("it was written by a newer version of traceql; update traceql")
    return document, peaks


def write_peaks(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Replaces the user's rows and ceilings in the database, except those of run directories.

    Args:
        files: CSV files of peaks, and files that `traceql experiment peaks` wrote.

    Raises:
        PeaksInvalid: a file cannot be used; the message says which and why.
    """
    rows: list[PeakRow] = []
    measured: list[tuple[Path, JsonDocument, PeaksDocument]] = []
    for path in files:
        try:
            text = read_text(path)
            if text.lstrip().startswith("{"):
                measured.append((path, *peaks_document(text)))
                continue
        except Unusable as error:
            raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None
        rows += _rows_of_file(con, path, text)
    con.execute("DELETE FROM user_peak")
    for position, row in enumerate(rows):
        places = ", ".join(["?"] * (1 + len(astuple(row))))
        con.execute(f"INSERT INTO user_peak VALUES ({places})", [position, *astuple(row)])
    con.execute("DELETE FROM peak_file WHERE run IS NULL")
    for path, document, peaks in measured:
        add_peak_file(con, path, None, document, peaks)


def add_peak_file(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    run: str | None,
    document: JsonDocument,
    peaks: PeaksDocument,
) -> None:
    """Adds measured ceilings to `peak_file`."""
    row = [path_text(path.absolute()), run, peaks.device_name, document.text]
    con.execute("INSERT INTO peak_file VALUES (?, ?, ?, ?)", row)


def _rows_of_file(con: duckdb.DuckDBPyConnection, path: Path, found: str) -> list[PeakRow]:
    """The rows of a CSV file; each source begins with its name."""
    rows = peak_rows(path, found)
    for number, row in enumerate(rows, start=1):
        try:
            con.execute("SELECT regexp_matches('', ?)", [row.device]).fetchall()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise PeaksInvalid(f"{path}, row {number}: invalid device: {reason}") from None
    name = path_text(Path(path.name))
    return [replace(row, source=f"{name}: {row.source}" if row.source else name) for row in rows]
