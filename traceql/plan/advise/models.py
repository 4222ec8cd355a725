"""The model that is asked about: its sizes and formats, from a name or a config.json."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceql.analysis.model.sizes import Sizes, sizes
from traceql.analysis.model.weights import Formats, formats
from traceql.errors import UnknownModel
from traceql.util.files import Unusable, read_text
from traceql.util.resources import MODELS
from traceql.util.text import suggestion


@dataclass(frozen=True)
class Model:
    name: str
    sizes: Sizes
    formats: Formats

    @property
    def layers(self) -> int:
        return len(self.sizes.layers)

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's activations."""
        return self.sizes.hidden * self.formats.plain.input_bytes


def model_named(name: str) -> Model:
    """The model of a configuration that traceql brings, or of a config.json or a folder with one.

    Raises:
        UnknownModel: there is none, or its sizes do not follow from it; nothing is guessed.
    """
    known = _built_in()
    path = known.get(name.lower()) or Path(name)
    if path.is_dir():
        path /= "config.json"
    if not path.exists():
        hint = suggestion(name.lower(), known) or "give a name, or the path of a config.json"
        raise UnknownModel(f"no model '{name}' (it has: {', '.join(known)}); {hint}")
    try:
        document = json.loads(read_text(path))
    except (Unusable, ValueError) as error:
        raise UnknownModel(f"cannot read the model configuration {path}: {error}") from None
    if not isinstance(document, dict):
        raise UnknownModel(f"{path} is not the config.json of a model")
    return described(name, document)


def built_in_model(name: str) -> Model | None:
    """The model of a configuration that traceql brings."""
    return model_named(name) if name.lower() in _built_in() else None


def _built_in() -> dict[str, Path]:
    return {file.stem: file for file in sorted(MODELS.glob("*.json"))}


def described(name: str, document: Mapping[str, Any]) -> Model:
    """The model that a configuration describes.

    Raises:
        UnknownModel: its sizes or formats do not follow from it.
    """
    found, stored = sizes(document), formats(document, None, None)
    if isinstance(found, str):
        raise UnknownModel(f"{name}: {found}, so nothing can be predicted")
    if isinstance(stored, str):
        raise UnknownModel(f"{name}: the {stored} is not known, so nothing can be predicted")
    missing = stored.linear.missing or stored.experts.missing
    if missing:
        raise UnknownModel(f"{name}: {missing} are not known, so nothing can be predicted")
    return Model(name, found, stored)


def has_layers_of(model: Model, other: Model) -> bool:
    """Whether two models differ at most in the number of their layers, all of which are alike."""
    if (model.sizes, model.formats) == (other.sizes, other.formats):
        return True
    alike = set(model.sizes.layers) == set(other.sizes.layers) and len(set(other.sizes.layers)) == 1
    without = dataclasses.replace(model.sizes, layers=())
    return (
        alike
        and without == dataclasses.replace(other.sizes, layers=())
        and model.formats == other.formats
    )
