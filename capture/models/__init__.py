"""Architectures that need no download: the config.json of each Qwen3 model, as data."""

import json
from pathlib import Path
from typing import Any

from capture.errors import ModelNotFound

_FOLDER = Path(__file__).parent


def built_in_models() -> list[str]:
    """Names, as `--model` takes them."""
    return sorted(file.stem for file in _FOLDER.glob("*.json"))


def built_in_config(name: str) -> dict[str, Any] | None:
    """The config.json of a built-in architecture; None where the name is of none.

    Names compare without case and publisher: `Qwen/Qwen3-8B` is `qwen3-8b`, as is `8b`.
    """
    short = name.rsplit("/", 1)[-1].lower()
    for stem in (short, f"qwen3-{short}"):
        if stem in built_in_models():
            config: dict[str, Any] = json.loads((_FOLDER / f"{stem}.json").read_text())
            return config
    return None


def write_model(name: str, folder: Path) -> Path:
    """A model folder that holds nothing but the config.json of a built-in architecture.

    Raises:
        ModelNotFound: there is no such architecture.
    """
    config = built_in_config(name)
    if config is None:
        raise ModelNotFound(
            f"no built-in architecture '{name}' for --dummy-weights "
            f"(there are {', '.join(built_in_models())}), and no folder of this name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder
