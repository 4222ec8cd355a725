"""The manifest of a lake: one small file per run, so that writers never share a file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import msgspec
import pyarrow as pa

from traceql.errors import LakeError, RunNotFound
from traceql.runs.lake.store import LOCKS, MANIFEST, MARK, TABLE, Store, put_bytes, row_name
from traceql.util.resources import __version__
from traceql.util.text import Column, suggestion

# Names that another process may have created in a new lake meanwhile.
_OWN_NAMES = (".", LOCKS, MANIFEST, MARK, TABLE)
FORMAT = 1  # of lake.json and of the manifest rows
OK, FAILED = "ok", "failed"


@dataclass(frozen=True)
class Input:
    """A file that a run was loaded from: its path then, SHA-256 and size."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class StoredFile:
    """The file with the rows of a run in one table; size and SHA-256 are of the whole file."""

    file: str
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class About:
    """Metadata of a run; None if unknown. See the columns of table lake_run."""

    model: str | None = None
    family: str | None = None
    layers: int | None = None
    kind: str | None = None
    started: str | None = None
    git_commit: str | None = None
    git_branch: str | None = None
    vllm_version: str | None = None
    torch_version: str | None = None
    gpu_name: str | None = None
    hosts: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    ranks: int | None = None
    world_size: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: bool | None = None
    setup: str | None = None


@dataclass(frozen=True)
class Entry:
    """The manifest row of a run.

    Attributes:
        run: its name in the lake.
        digest: of the SHA-256 of its traces; the same recording has the same digest.
        given: of the SHA-256 of the files at its source before they were loaded.
        status: ok or failed.
        error: why it failed; None if it did not.
        source: the path that was added.
        added: when, in UTC.
        written_by: the version of traceql.
        schema_version: of its tables; None if it failed.
        layout: digest of the columns of its tables; see `tables.layout`.
    """

    run: str
    digest: str
    given: str
    status: str
    error: str | None
    source: str
    added: str
    written_by: str = __version__
    schema_version: int | None = None
    layout: str = ""
    about: About = About()
    inputs: tuple[Input, ...] = ()
    tables: Mapping[str, StoredFile] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        return self.status == OK

    @property
    def size_bytes(self) -> int:
        """Size of its files; shared ones count whole."""
        return sum({one.file: one.size_bytes for one in self.tables.values()}.values())


def write_entry(store: Store, entry: Entry) -> None:
    """Writes the manifest row of a run; all files that it names must be in the lake."""
    content = json.dumps({"format": FORMAT, **asdict(entry)}, indent=1).encode() + b"\n"
    put_bytes(store, row_name(entry.digest), content)


def read_entry(store: Store, digest: str) -> Entry | None:
    """The manifest row of the run with this digest; None if there is none."""
    return read_row(store, row_name(digest))


def entries(store: Store) -> list[Entry]:
    """All runs by name; raises LakeError if this is not a lake, of another version, or damaged."""
    require_lake(store)
    found = [read_row(store, name) for name in row_names(store)]
    return sorted((one for one in found if one), key=lambda one: one.run)


def row_names(store: Store) -> list[str]:
    return [name for name in store.names(MANIFEST) if name.endswith(".json")]


def create_lake(store: Store) -> None:
    """Makes a lake, unless it is one; LakeError if the folder has other files."""
    if store.size(MARK) is None:
        if others := [name for name in store.names("") if not name.startswith(_OWN_NAMES)]:
            raise LakeError(f"{store.place} has other files ({others[0]}); name a new folder")
        put_bytes(store, MARK, json.dumps({"format": FORMAT}).encode() + b"\n")
    require_lake(store)


def require_lake(store: Store) -> None:
    """Raises LakeError unless it is a lake of a known format."""
    try:
        known = json.loads(store.read(MARK))["format"]
    except OSError:
        raise LakeError(
            f"{store.place} is not a lake; make one with traceql lake add RUN --lake {store.place}"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise LakeError(f'{store.place}/{MARK} is damaged; write {{"format": 1}} into it') from None
    if known != FORMAT:
        raise LakeError(
            f"{store.place} was made by another version of traceql (format {known}, this one "
            f"reads {FORMAT})"
        )


def read_row(store: Store, name: str) -> Entry | None:
    """A manifest row; None if another process has removed it."""
    try:
        found = json.loads(store.read(name))
        if found["format"] != FORMAT:
            raise LakeError(
                f"{store.place}/{name} was written by a newer traceql; install that version"
            )
        return msgspec.convert(found, Entry)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, msgspec.ValidationError):
        raise LakeError(
            f"{store.place}/{name} is damaged; remove it and add the run again"
        ) from None


def files_of(found: Iterable[Entry]) -> dict[str, StoredFile]:
    return {one.file: one for entry in found for one in entry.tables.values()}


def named_run(found: Sequence[Entry], run: str) -> Entry:
    """The run of a name; raises RunNotFound, which suggests names that are close."""
    names = {one.run: one for one in found}
    if run in names:
        return names[run]
    hint = suggestion(run, names) or "list them with traceql lake run fleet.runs"
    raise RunNotFound(f"no run '{run}'; {hint}")


NAME = "lake_run"
SUMMARY = "One row per run of the lake: what it is, and whether it could be loaded."
COLUMNS = (
    Column("run", "VARCHAR", "Name of the run in the lake."),
    Column("status", "VARCHAR", "ok, or failed: it could not be loaded, and has no other rows."),
    Column("error", "VARCHAR", "Why it could not be loaded; NULL if it could."),
    Column("model", "VARCHAR", "Name of the model, as in run.json; NULL if unknown."),
    Column("family", "VARCHAR", "Family of models that its layers are of, such as qwen3."),
    Column("layers", "BIGINT", "Layers of the model."),
    Column("kind", "VARCHAR", "What was recorded: vllm-offline, vllm-server or program."),
    Column("started", "VARCHAR", "When it was started, or else its first event, UTC, ISO 8601."),
    Column("git_commit", "VARCHAR", "Commit of the folder in which it was started."),
    Column("git_branch", "VARCHAR", "Branch of that commit."),
    Column("vllm_version", "VARCHAR", "Version of vLLM."),
    Column("torch_version", "VARCHAR", "Version of PyTorch."),
    Column("gpu_name", "VARCHAR", "Kinds of its GPUs or NPUs."),
    Column("hosts", "VARCHAR[]", "Names of its hosts; empty if unknown."),
    Column("gpus", "VARCHAR[]", "Identifiers of its GPUs or NPUs; empty if unknown."),
    Column("ranks", "BIGINT", "Ranks that are loaded."),
    Column("world_size", "BIGINT", "Ranks of the run."),
    Column("tp", "BIGINT", "Tensor-parallel size; NULL if unknown."),
    Column("pp", "BIGINT", "Pipeline-parallel size; NULL if unknown."),
    Column("dp", "BIGINT", "Data-parallel size; NULL if unknown."),
    Column("ep", "BOOLEAN", "Whether experts were spread over the ranks; NULL if unknown."),
    Column(
        "setup",
        "VARCHAR",
        "Equal if speeds can be compared: same model, GPU, parallelism, number types and "
        "loaded ranks.",
    ),
    Column("kernels", "BIGINT", "Kernels, copies and sets of its devices."),
    Column(
        "size_bytes", "BIGINT", "Size of its files in the lake; of files of several runs, whole."
    ),
    Column("source", "VARCHAR", "Path that was added."),
    Column("added", "VARCHAR", "When it was added, UTC, ISO 8601."),
    Column("schema_version", "BIGINT", "Version of its tables; NULL if it failed."),
    Column("written_by", "VARCHAR", "Version of traceql that added it."),
)
_TYPES = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR[]": pa.list_(pa.string()),
}
_SCHEMA = pa.schema([(one.name, _TYPES[one.type]) for one in COLUMNS])


def runs_table(found: Sequence[Entry]) -> pa.Table:
    """One row per run."""
    rows = []
    for one in found:
        kernel = one.tables.get("kernel")
        counted = {"kernels": kernel.rows if kernel else 0 if one.is_ok else None}
        rows.append({**vars(one), **vars(one.about), **counted, "size_bytes": one.size_bytes})
    return pa.Table.from_pylist(rows, _SCHEMA)
