"""Built-in architectures, which need no download: the config.json of each Qwen3 model."""

import json
from pathlib import Path
from typing import Any

from capture.errors import ModelNotFound

_FOLDER = Path(__file__).parent


def built_in_models() -> list[str]:
    """The names of the built-in architectures, as `--model` accepts them."""
    return sorted(file.stem for file in _FOLDER.glob("*.json"))


def built_in_config(name: str) -> dict[str, Any] | None:
    """The config.json of a built-in architecture, or None if no architecture has this name.

    Case, publisher and the prefix qwen3- are ignored: `Qwen/Qwen3-8B` and `8b` are `qwen3-8b`.
    """
    short = name.rsplit("/", 1)[-1].lower()
    for stem in (short, f"qwen3-{short}"):
        if stem in built_in_models():
            config: dict[str, Any] = json.loads((_FOLDER / f"{stem}.json").read_text())
            return config
    return None


def write_model(name: str, folder: Path) -> Path:
    """Creates a model folder with nothing but the config.json of a built-in architecture.

    Raises:
        ModelNotFound: there is no such architecture.
    """
    config = built_in_config(name)
    if config is None:
        raise _unknown(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder


def require_model(model: str, *, dummy_weights: bool) -> None:
    """Checks a model before an engine is started.

    Raises:
        ModelNotFound: the folder is not one of a model, or the name is unknown.
    """
    folder = Path(model)
    if dummy_weights:
        if not folder.is_dir() and built_in_config(model) is None:
            raise _unknown(model)
        return
    if folder.is_dir() and not (folder / "config.json").exists():
        raise ModelNotFound(f"{model} has no config.json; give the folder of a Hugging Face model")
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1
    if not folder.is_dir() and looks_like_path:
        raise ModelNotFound(f"the folder {model} does not exist; give the folder of a model")
    if not folder.is_dir() and "/" not in model and built_in_config(model):
        raise ModelNotFound(
            f"{model} is a built-in architecture, which has no weights; add --dummy-weights"
        )


def _unknown(model: str) -> ModelNotFound:
    return ModelNotFound(
        f"{model} is neither a folder nor a built-in architecture; "
        f"the built-in architectures are {', '.join(built_in_models())}"
    )
