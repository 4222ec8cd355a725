"""Loads the model's configuration, for checking layers and computing costs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import duckdb
from msgspec import Meta, Struct

from traceql.analysis.layers.families import families as layer_families
from traceql.database.loading.discovery import MODEL_CONFIG, RUN, folders_beside
from traceql.database.loading.run_directory import RunDirectory, checked, json_document
from traceql.errors import ModelConfigInvalid
from traceql.util.files import Unusable, path_text


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

    Args:
        runs: the run directory of each trace that is in one.

    Raises:
        ModelConfigInvalid: the given file cannot be read or does not describe a model.
    """
    found = (given, _given(given)) if given else next(_beside(traces, runs), None)
    if found is None:
        return
    path, (config, document) = found
    families = [g.name for g in layer_families() if config.model_type in g.model_types]
    con.execute("DELETE FROM model_config")
    con.execute(
        "INSERT INTO model_config VALUES (?, ?, ?, ?, ?, ?)",
        [
            config.model_type,
            config.num_hidden_layers,
            config.hidden_size,
            families,
            path_text(path),
            # NaN and Infinity become null: JSON does not have them.
            json.dumps(json.loads(json.dumps(document), parse_constant=lambda _: None)),
        ],
    )


def described_model(document: Any) -> _Described | None:
    """The model in a document, at any depth; the text decoder of a multimodal model.

    Raises:
        Unusable: a value has a wrong type; the message has its key.
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
