"""The table lake_run: the manifest for SQL."""

from collections.abc import Sequence

import pyarrow as pa

from traceql.runs.lake.manifest import Entry
from traceql.util.comment_head import Column

NAME = "lake_run"
SUMMARY = "One row per run of the lake: what it is, and whether it could be loaded."
COLUMNS = (
    Column("run", "VARCHAR", "Name of the run in the lake."),
    Column("status", "VARCHAR", "ok, or failed: it could not be loaded, and has no other rows."),
    Column("error", "VARCHAR", "Why it could not be loaded; NULL if it could."),
    Column("model", "VARCHAR", "Name of the model, as in run.json; NULL if the run does not tell."),
    Column("family", "VARCHAR", "Family of models that its layers are of, such as qwen3."),
    Column("layers", "BIGINT", "Layers of the model."),
    Column("kind", "VARCHAR", "What was recorded: vllm-offline, vllm-server or program."),
    Column("started", "VARCHAR", "When it was started, or else its first event, UTC, ISO 8601."),
    Column("git_commit", "VARCHAR", "Commit of the folder in which it was started."),
    Column("git_branch", "VARCHAR", "Branch of that commit."),
    Column("vllm_version", "VARCHAR", "Version of vLLM."),
    Column("torch_version", "VARCHAR", "Version of PyTorch."),
    Column("gpu_name", "VARCHAR", "Kinds of its GPUs or NPUs."),
    Column("hosts", "VARCHAR[]", "Names of its hosts; empty if the run does not tell."),
    Column("gpus", "VARCHAR[]", "Identifiers of its GPUs or NPUs; empty if the run does not tell."),
    Column("ranks", "BIGINT", "Ranks that are loaded."),
    Column("world_size", "BIGINT", "Ranks of the run."),
    Column("tp", "BIGINT", "Tensor-parallel size; NULL if unknown."),
    Column("pp", "BIGINT", "Pipeline-parallel size; NULL if unknown."),
    Column("dp", "BIGINT", "Data-parallel size; NULL if unknown."),
    Column("ep", "BOOLEAN", "Whether experts were spread over the ranks; NULL if unknown."),
    Column(
        "setup",
        "VARCHAR",
        "Equal where the set-ups forbid no comparison of speed: model, GPU, "
        "parallelism, number types and loaded ranks.",
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
    return pa.Table.from_pylist([_row(one) for one in found], _SCHEMA)


def _row(one: Entry) -> dict[str, object]:
    kernel = one.tables.get("kernel")
    counted = {"kernels": kernel.rows if kernel else 0 if one.is_ok else None}
    return {**vars(one), **vars(one.about), **counted, "size_bytes": one.size_bytes}
