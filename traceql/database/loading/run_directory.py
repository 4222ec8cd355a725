"""Run directories: the schema of run.json and the files beside it, and ranks of traces."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from traceql.database.loading.discovery import RUN
from traceql.errors import TraceCorrupt
from traceql.readers.redaction import Redaction
from traceql.util.files import Unusable, read_text

T = TypeVar("T")


@dataclass(frozen=True)
class JsonDocument:
    """The text and the value of a JSON document; DuckDB and Python read the same value."""

    text: str
    value: Any


def json_document(path: Path) -> JsonDocument:
    """The document in a file; raises Unusable as `parsed` does, or if it cannot be read."""
    return parsed(read_text(path))


def parsed(found: str) -> JsonDocument:
    """The document in a text; NaN and Infinity are allowed, as in configurations of models.

    Raises Unusable if it is not JSON, or ambiguous: a duplicate key or half of a surrogate pair.
    """
    if not found.strip():
        raise Unusable("empty file")
    try:
        value = json.loads(found, object_pairs_hook=_object)
        if "\\ud" in found.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise Unusable("nested too deeply") from None
    except UnicodeEncodeError:
        raise Unusable("not JSON: half of a surrogate pair in a string") from None
    except json.JSONDecodeError as error:
        raise Unusable(f"not JSON: {error}") from None
    except Unusable:
        raise
    except ValueError:  # more digits than Python converts
        raise Unusable("a number has thousands of digits") from None
    return JsonDocument(found, value)


def checked(value: Any, type_: type[T]) -> T:
    """The value as a msgspec struct, without unknown keys.

    Raises Unusable if a key is missing or has a value of another type.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise Unusable(str(error)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate keys: DuckDB would use the first, Python the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Unusable(f"an object has the key {json.dumps(twice[:40])} twice")
    return found


# Job schedulers and PyTorch count ranks in 32 bits.
_Int32 = Annotated[int, Meta(ge=0, le=2**31 - 1)]
# A sum or difference of two such numbers has 64 bits.
_Number = Annotated[int, Meta(gt=-(2**62), lt=2**62)]
_Count = Annotated[int, Meta(ge=0, lt=2**62)]


class RankEntry(Struct, frozen=True):
    """A rank in run.json; `trace` is relative to the run directory, `pid` that of its process."""

    rank: _Int32
    trace: str | None = None
    pid: _Int32 | None = None
    tp_rank: _Int32 | None = None
    pp_rank: _Int32 | None = None
    dp_rank: _Int32 | None = None
    ep_rank: _Int32 | None = None


class _Size(Struct, frozen=True):
    world_size: _Int32 | None = None


class RankEntries(Struct, frozen=True):
    """The keys of run.json that state the ranks; a wrong value is an error."""

    schema_version: Annotated[int, Meta(ge=1)]
    ranks: list[RankEntry] | None = None
    parallel: _Size | None = None


class _Parallel(Struct, frozen=True):
    tp: _Int32 | None = None
    pp: _Int32 | None = None
    dp: _Int32 | None = None
    ep: bool | None = None


class _Window(Struct, frozen=True):
    begin_unix_ns: _Number | None = None
    end_unix_ns: _Number | None = None
    iterations: _Count | None = None


class _Overhead(Struct, frozen=True):
    profiled_ns: _Number | None = None
    unprofiled_ns: _Number | None = None
    overhead_pct: float | None = None


class _Host(Struct, frozen=True):
    name: str | None = None


class _Gpu(Struct, frozen=True):
    index: _Int32 | None = None
    uuid: str | None = None
    name: str | None = None


class _Adapter(Struct, frozen=True):
    link_layer: str | None = None
    rate: str | None = None


class _RankFacts(Struct, frozen=True):
    device_uuid: str | None = None
    host: str | None = None
    first_layer: _Int32 | None = None
    layers: _Int32 | None = None


class RunFacts(Struct, frozen=True):
    """The keys of run.json that describe the run; a wrong value becomes NULL in the tables."""

    status: str | None = None
    reason: str | None = None
    kind: str | None = None
    model: str | None = None
    start: str | None = None
    eager: bool | None = None
    annotation: str | None = None
    topology: str | None = None
    parallel: _Parallel | None = None
    versions: dict[str, str | None] | None = None
    window: _Window | None = None
    overhead: _Overhead | None = None
    host: _Host | None = None
    gpus: list[_Gpu] | None = None
    network_adapters: list[_Adapter] | None = None
    ranks: list[_RankFacts] | None = None
    model_config: dict[str, Any] | None = None


class _Request(Struct, frozen=True):
    request_id: str | None = None
    sent_unix_ns: _Number | None = None
    first_token_unix_ns: _Number | None = None
    last_token_unix_ns: _Number | None = None
    finished: bool | None = None
    finish_reason: str | None = None
    prompt_tokens: _Count | None = None
    output_tokens: _Count | None = None
    ttft: _Number | None = None
    tpot: _Number | None = None
    e2e: _Number | None = None
    itl: list[_Number] | None = None


class _Pass(Struct, frozen=True):
    requests: list[_Request] | None = None


class Metrics(Struct, frozen=True):
    """metrics.json: the requests of each pass; a wrong value becomes NULL in the tables."""

    passes: dict[str, _Pass] | None = None


# Tokens by request.
Tokens = dict[str, _Count]


class Step(Struct, frozen=True):
    """A line of steps.jsonl: an iteration of a rank, and the tokens of each request in it.

    `computed` has the tokens of each request before the iteration, of type `Tokens | None`; it is
    parsed separately, so that an error in it does not affect the rest.
    """

    rank: _Int32
    number: _Count
    begin_unix_ns: _Number | None = None
    requests: Tokens | None = None
    computed: Raw = Raw(b"null")


class SchedulerSample(Struct, frozen=True):
    """A line of scheduler.jsonl: a step of an engine or, without number, a sample of a server."""

    rank: _Int32
    unix_ns: _Number
    number: _Count | None = None
    running: _Count | None = None
    waiting: _Count | None = None
    kv_blocks_used: _Count | None = None
    kv_blocks: _Count | None = None
    preempted: _Count | None = None
    prefix_queried: _Count | None = None
    prefix_hits: _Count | None = None
    scheduled_tokens: _Count | None = None
    max_scheduled_tokens: _Count | None = None
    max_running: _Count | None = None
    drafted: _Count | None = None
    accepted: _Count | None = None


_KNOWN_SCHEMA = 1


@dataclass(frozen=True)
class RunDirectory:
    """A run directory and its run.json."""

    path: Path
    document: JsonDocument
    entries: RankEntries
    secrets: Sequence[str] = ()  # names of values that were left out of the document

    @property
    def world_size(self) -> int | None:
        """The number of ranks; None if it is not stated."""
        return self.entries.parallel.world_size if self.entries.parallel else None

    def rank_of(self, trace: Path, process: int | None) -> RankEntry | None:
        """The entry for a rank of a trace; the id of its process distinguishes those of a file."""
        name = f"traces/{trace.name}"
        entries = [entry for entry in self.entries.ranks or () if entry.trace == name]
        if len(entries) == 1 and None in (process, entries[0].pid):
            return entries[0]
        return next((entry for entry in entries if entry.pid == process), None)


def run_directories(traces: Iterable[Path]) -> dict[Path, RunDirectory]:
    """The run directory of each trace that is in one. Each run.json is read once.

    Raises:
        TraceCorrupt: a run.json cannot be read, is ambiguous about the ranks of traces, or is of a
            newer version of traceql.
    """
    inside = [trace for trace in traces if trace.parent.name == "traces"]
    found = {folder: _run_directory(folder) for folder in {t.parent.parent for t in inside}}
    return {trace: run for trace in inside if (run := found[trace.parent.parent])}


def _run_directory(folder: Path) -> RunDirectory | None:
    """None if `traceql capture` wrote no run.json there."""
    file = folder / RUN
    try:
        if not file.exists():
            return None
        document = json_document(file)
        if not isinstance(document.value, dict) or "schema_version" not in document.value:
            return None
        entries = checked(document.value, RankEntries)
        for twice in _duplicates(entries.ranks or []):
            raise Unusable(f"two entries of $.ranks {twice}")
    except (OSError, Unusable) as error:
        raise TraceCorrupt(
            f"cannot read {file}: {error}; correct it, or move it away to load only the traces"
        ) from None
    if entries.schema_version > _KNOWN_SCHEMA:
        raise TraceCorrupt(f"{file} was written by a newer version of traceql; update traceql")
    redaction = Redaction()
    shown = redaction.shown(document.value)
    if redaction.secrets:
        document = JsonDocument(json.dumps(shown), shown)
    return RunDirectory(folder, document, entries, redaction.secrets)


def _duplicates(entries: Sequence[RankEntry]) -> Iterator[str]:
    """What two entries have in common that must be unique."""
    ranks = Counter(entry.rank for entry in entries)
    yield from (f"are rank {rank}" for rank, count in ranks.items() if count > 1)
    files = Counter((entry.trace, entry.pid) for entry in entries if entry.trace is not None)
    for (trace, pid), count in files.items():
        if count > 1:
            yield f"have the trace {trace}" + ("" if pid is None else f" and the process {pid}")
