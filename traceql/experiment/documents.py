"""The documents of a folder of results, as `traceql experiment run` writes them."""

import json
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from traceql.errors import TraceqlError
from traceql.input_file import Unusable
from traceql.loading.json_document import checked, json_document


class EngineDocument(Struct, frozen=True):
    """A server: model, parallel sizes, arguments, environment variables."""

    model: str
    tp: int
    pp: int
    dp: int
    ep: bool
    dummy_weights: bool = False
    arguments: dict[str, Any] = {}
    environment: dict[str, str] = {}

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp


class PointDocument(Struct, frozen=True):
    """A combination of the grid, as in plan.json; `reason` if it was left out."""

    path: str
    engine: EngineDocument
    prompt_tokens: int
    output_tokens: int
    requests: int
    bench: str = "serve"
    batch: int | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    reason: str | None = None

    @property
    def engine_key(self) -> str:
        return self.path.partition("/")[0]

    @property
    def load(self) -> str:
        """What the load is, in words."""
        if self.batch is not None:
            return "batch"
        named = {"rate": self.request_rate, "concurrency": self.concurrency}
        return " and ".join(name for name, value in named.items() if value is not None)


class LimitsDocument(Struct, frozen=True):
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


class RecordDocument(Struct, frozen=True):
    profile: bool = True


class PlanOfDocument(Struct, frozen=True):
    """The plan as it was understood."""

    model: str
    repeats: int
    name: str | None = None
    question: str | None = None
    dummy_weights: bool = False
    bench: str = "serve"
    gates: bool = True
    seed: int = 0
    limits: LimitsDocument = LimitsDocument()
    record: RecordDocument = RecordDocument()


class PlanDocument(Struct, frozen=True):
    """plan.json

    Attributes:
        text: the plan as JSON, with the keys that are not known here.
    """

    schema_version: int
    plan: PlanOfDocument
    points: list[PointDocument]
    skipped: list[PointDocument] = []
    text: str = "{}"

    @property
    def all_points(self) -> list[PointDocument]:
        """Those to run, then those left out."""
        return [*self.points, *self.skipped]


class ServerDocument(Struct, frozen=True):
    folder: str
    command: list[str] = []
    start_s: float | None = None


class RepeatOfDocument(Struct, frozen=True):
    """The key `experiment` of the run.json of a repeat."""

    order: int | None = None
    server: ServerDocument | None = None
    seconds: float | None = None
    log_tail: dict[str, list[str]] = {}


class RepeatDocument(Struct, frozen=True):
    """run.json of a repeat."""

    status: str
    experiment: RepeatOfDocument
    reason: str | None = None
    start_unix_ns: int | None = None
    environment: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    host: dict[str, Any] | None = None
    git: dict[str, Any] | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list)


_VERSION = 1  # of plan.json


def read_plan(folder: Path) -> PlanDocument:
    """The plan of a folder of results.

    Raises:
        TraceqlError: the folder has none, or one that cannot be read.
    """
    file = folder / "plan.json"
    if not file.is_file():
        raise TraceqlError(
            f"{folder} has no plan.json; name a folder that traceql experiment run has written"
        )
    try:
        document = json_document(file)
        plan = checked(document.value, PlanDocument)
    except Unusable as error:
        raise TraceqlError(f"{file} cannot be used: {error}") from None
    if plan.schema_version != _VERSION:
        raise TraceqlError(f"{file} is of another version of traceql; update traceql")
    return replace(plan, text=json.dumps(document.value["plan"]))


def read_repeat(file: Path) -> RepeatDocument | None:
    """The run.json of a repeat; None if it does not exist: not run, or killed.

    Raises:
        Unusable: it cannot be read.
    """
    if not file.exists():
        return None
    return checked(json_document(file).value, RepeatDocument)
