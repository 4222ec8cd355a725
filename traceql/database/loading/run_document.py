"""What run.json, metrics.json and steps.jsonl of a run directory hold, as far as it is read.

The structs that place ranks refuse a load; the others only tell what is unknown. All keys may be
missing or null, unless a run directory makes no sense without them.
"""

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

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
