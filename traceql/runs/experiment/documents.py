"""The documents of a folder of results of `traceql experiment run`.

Numbers are bounded, so that products of two of them fit into 64 bits.
"""

import json
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from traceql.database.loading.run_directory import checked, json_document
from traceql.errors import TraceqlError
from traceql.util.files import Unusable

Count = Annotated[int, Meta(ge=1, le=2**31)]
Size = Annotated[int, Meta(ge=1, le=2**10)]  # three of them are multiplied, and that with a count
Repeats = Annotated[int, Meta(ge=1, le=10_000)]
Place = Annotated[int, Meta(ge=0, le=2**31)]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Moment = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # Unix time in ns
Rate = Annotated[float, Meta(gt=0, le=1e12)]
Milliseconds = Annotated[float, Meta(gt=0, le=1e12)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class EngineDocument(Struct, frozen=True):
    model: str
    tp: Size
    pp: Size
    dp: Size
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
    prompt_tokens: Count
    output_tokens: Count
    requests: Count
    bench: str = "serve"
    batch: Count | None = None
    concurrency: Count | None = None
    request_rate: Rate | None = None
    reason: str | None = None

    @property
    def engine_key(self) -> str:
        return self.path.partition("/")[0]

    @property
    def load(self) -> str:
        if self.batch is not None:
            return "batch"
        named = {"rate": self.request_rate, "concurrency": self.concurrency}
        return " and ".join(name for name, value in named.items() if value is not None)


class LimitsDocument(Struct, frozen=True):
    ttft_ms: Milliseconds | None = None
    tpot_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None


class RecordDocument(Struct, frozen=True):
    profile: bool = True


class PlanOfDocument(Struct, frozen=True):
    model: str
    repeats: Repeats
    name: str | None = None
    question: str | None = None
    dummy_weights: bool = False
    bench: str = "serve"
    gates: bool = True
    seed: Integer = 0
    limits: LimitsDocument = LimitsDocument()
    record: RecordDocument = RecordDocument()


class PlanDocument(Struct, frozen=True):
    """plan.json

    Attributes:
        text: the plan as JSON, including unknown keys.
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
    start_s: Seconds | None = None


class PointOfDocument(Struct, frozen=True):
    """The point that the run.json of a repeat names."""

    path: str | None = None


class RepeatOfDocument(Struct, frozen=True):
    """The key `experiment` of the run.json of a repeat."""

    point: PointOfDocument | None = None
    repeat: Integer | None = None
    order: Place | None = None
    server: ServerDocument | None = None
    seconds: Seconds | None = None
    log_tail: dict[str, list[str]] = {}


class RepeatDocument(Struct, frozen=True):
    """run.json of a repeat. Facts of the machine are optional, and are not checked here."""

    status: str
    experiment: RepeatOfDocument
    reason: str | None = None
    start_unix_ns: Moment | None = None
    environment: dict[str, Any] = {}
    versions: Any = None
    host: Any = None
    git: Any = None
    gpus: list[dict[str, Any]] = field(default_factory=list)


_VERSION = 1  # of plan.json
_LONGEST_NAME = 255  # bytes, of a file
_LONGEST_PATH = 1_000


def read_plan(folder: Path) -> PlanDocument:
    """The plan of a folder of results; raises TraceqlError if there is none that can be read."""
    file = folder / "plan.json"
    if not file.is_file():
        raise TraceqlError(f"{folder} has no plan.json; use a folder of traceql experiment run")
    try:
        document = json_document(file)
        plan = checked(document.value, PlanDocument)
        seen = set[str]()
        for point in plan.all_points:
            if not is_inside(point.path):
                raise Unusable(f"path {point.path[:80]!r} of a point is not inside the folder")
            if point.path in seen:
                raise Unusable(f"it has two points with the path {point.path[:80]!r}")
            seen.add(point.path)
    except Unusable as error:
        raise TraceqlError(f"{file} cannot be used: {error}") from None
    if plan.schema_version != _VERSION:
        raise TraceqlError(f"{file} is of another version of traceql; update traceql")
    return replace(plan, text=json.dumps(document.value["plan"]))


def read_repeat(file: Path) -> RepeatDocument | None:
    """The run.json of a repeat, or Unusable; None if it does not exist: not run, or killed."""
    try:
        if not file.exists():
            return None
    except OSError as error:
        raise Unusable(error.strerror or str(error)) from None
    return checked(json_document(file).value, RepeatDocument)


def is_inside(path: str) -> bool:
    """Whether it is a relative path inside a folder, and valid for a file."""
    names = path.split("/")
    return (
        not PurePosixPath(path).is_absolute()
        and len(path) <= _LONGEST_PATH
        and all(name.isprintable() and len(name.encode()) <= _LONGEST_NAME for name in names)
        and not {"", ".", ".."} & set(names)
    )
