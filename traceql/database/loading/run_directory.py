"""Run directories: run.json, metrics.json and steps.jsonl, and the ranks that they name."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from traceql.database.loading.discovery import RUN
from traceql.errors import TraceCorrupt
from traceql.util.files import Unusable, read_text

T = TypeVar("T")


@dataclass(frozen=True)
class JsonDocument:
    """A JSON document that DuckDB reads as Python does: its text, and its value."""

    text: str
    value: Any


def json_document(path: Path) -> JsonDocument:
    """The document in a file.

    Raises:
        Unusable: the file cannot be read, or is not JSON that has one meaning.
    """
    return parsed(read_text(path))


def parsed(found: str) -> JsonDocument:
    """The document in a text. NaN and Infinity are read: configurations of models have them.

    Raises:
        Unusable: it is not JSON that has one meaning.
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
    """The value as a msgspec struct, which ignores keys that it does not know.

    Raises:
        Unusable: a key is missing or has a value of another type; the message has its path.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise Unusable(str(error)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; DuckDB would take the first of two equal keys, and Python the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Unusable(f"an object has the key {json.dumps(twice[:40])} twice")
    return found


# Job schedulers and PyTorch count ranks in 32 bits.
_Place = Annotated[int, Meta(ge=0, le=2**31 - 1)]
# A sum or difference of two such numbers has 64 bits.
_Number = Annotated[int, Meta(gt=-(2**62), lt=2**62)]
_Count = Annotated[int, Meta(ge=0, lt=2**62)]


class RankEntry(Struct, frozen=True):
    """A rank in run.json; `trace` is relative to the run directory, `pid` that of its process."""

    rank: _Place
    trace: str | None = None
    pid: _Place | None = None
    tp_rank: _Place | None = None
    pp_rank: _Place | None = None
    dp_rank: _Place | None = None
    ep_rank: _Place | None = None


class _Size(Struct, frozen=True):
    world_size: _Place | None = None


class RankPlaces(Struct, frozen=True):
    """The keys of run.json that place the ranks; a wrong one must not be guessed."""

    schema_version: Annotated[int, Meta(ge=1)]
    ranks: list[RankEntry] | None = None
    parallel: _Size | None = None


class _Parallel(Struct, frozen=True):
    tp: _Place | None = None
    pp: _Place | None = None
    dp: _Place | None = None
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
    index: _Place | None = None
    uuid: str | None = None
    name: str | None = None


class _Adapter(Struct, frozen=True):
    link_layer: str | None = None
    rate: str | None = None


class _RankFacts(Struct, frozen=True):
    device_uuid: str | None = None
    host: str | None = None
    first_layer: _Place | None = None
    layers: _Place | None = None


class RunFacts(Struct, frozen=True):
    """The keys of run.json that describe the run: a wrong one is unknown in the tables."""

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
    """metrics.json: the requests of each pass; a wrong value is unknown in the tables."""

    passes: dict[str, _Pass] | None = None


# Tokens by request.
Tokens = dict[str, _Count]


class Step(Struct, frozen=True):
    """A line of steps.jsonl: an iteration of a rank, and the tokens of each request in it.

    Attributes:
        computed: the tokens of each request before the iteration, of type `Tokens | None`; they
            are read on their own, because what is wrong in them costs nothing else.
    """

    rank: _Place
    number: _Count
    begin_unix_ns: _Number | None = None
    requests: Tokens | None = None
    computed: Raw = Raw(b"null")


_KNOWN_SCHEMA = 1


@dataclass(frozen=True)
class RunDirectory:
    """A run directory, and what its run.json says."""

    path: Path
    document: JsonDocument
    places: RankPlaces

    @property
    def world_size(self) -> int | None:
        """The number of ranks; None if it is not stated."""
        return self.places.parallel.world_size if self.places.parallel else None

    def rank_of(self, trace: Path, process: int | None) -> RankEntry | None:
        """The entry for a rank of a trace in this directory.

        Args:
            process: the id of the rank's process, by which the ranks of one file are told apart.
        """
        entries = self._entries.get(f"traces/{trace.name}", [])
        if len(entries) == 1 and None in (process, entries[0].pid):
            return entries[0]
        return next((entry for entry in entries if entry.pid == process), None)

    @cached_property
    def _entries(self) -> Mapping[str | None, list[RankEntry]]:
        found: dict[str | None, list[RankEntry]] = {}
        for entry in self.places.ranks or ():
            found.setdefault(entry.trace, []).append(entry)
        return found


def run_directories(traces: Iterable[Path]) -> dict[Path, RunDirectory]:
    """The run directory of each trace that is in one. Each run.json is read once.

    Raises:
        TraceCorrupt: a run.json cannot be read, does not say clearly which rank a trace is, or was
            written by a newer version of traceql.
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
        places = checked(document.value, RankPlaces)
        _require_each_once(places)
    except (OSError, Unusable) as error:
        raise TraceCorrupt(
            f"cannot read {file}: {error}; correct it, or move it away to load only the traces"
        ) from None
    if places.schema_version > _KNOWN_SCHEMA:
        raise TraceCorrupt(f"{file} was written by a newer version of traceql; update traceql")
    return RunDirectory(folder, document, places)


def _require_each_once(places: RankPlaces) -> None:
    entries = places.ranks or []
    ranks = [entry.rank for entry in entries]
    files = [(entry.trace, entry.pid) for entry in entries if entry.trace is not None]
    if len(set(ranks)) < len(ranks):
        twice = next(rank for rank in ranks if ranks.count(rank) > 1)
        raise Unusable(f"two entries of $.ranks are rank {twice}")
    if len(set(files)) < len(files):
        trace, pid = next(file for file in files if files.count(file) > 1)
        of_process = "" if pid is None else f" and the process {pid}"
        raise Unusable(f"two entries of $.ranks have the trace {trace}{of_process}")
