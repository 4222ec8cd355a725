"""traceql-gate.toml: what a repository gates, so that its command line can be short."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceql.errors import CriterionInvalid
from traceql.runs.gate.criterion import criteria
from traceql.util.printable import one_line
from traceql.util.suggestions import suggestion

NAME = "traceql-gate.toml"
_KEYS = ("fail_on", "accept", "baseline")


@dataclass(frozen=True)
class Config:
    """The contents of a traceql-gate.toml.

    Attributes:
        path: the file; None if there is none.
        fail_on: texts of criteria.
        accept: names of differences of the set-up that forbid nothing.
        baseline: folder of a baseline; in the file, it is relative to the file.
    """

    path: Path | None = None
    fail_on: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    baseline: Path | None = None


def found_config(folder: Path) -> Config:
    """The nearest file in this folder or above it, but not above the root of the repository.

    Outside a repository, only the folder itself counts.

    Raises:
        CriterionInvalid: the file is wrong.
    """
    above = [folder, *folder.parents]
    root = next((place for place in above if (place / ".git").exists()), folder)
    for place in above[: above.index(root) + 1]:
        if (place / NAME).is_file():
            return read_config(place / NAME)
    return Config()


def read_config(path: Path) -> Config:
    """The contents of a file.

    Raises:
        CriterionInvalid: it cannot be read, or what it says is wrong.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CriterionInvalid(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise CriterionInvalid(f"{path} is no TOML: {one_line(str(error))}") from None
    try:
        return _config(path, data)
    except ValueError as error:
        raise CriterionInvalid(f"{path}: {error}") from None
    except CriterionInvalid as error:
        raise CriterionInvalid(f"{path}: {error}") from None


def _config(path: Path, data: dict[str, Any]) -> Config:
    for key in data:
        if key not in _KEYS:
            hint = suggestion(key, _KEYS) or f"there are {', '.join(_KEYS)}"
            raise ValueError(f"unknown key '{one_line(key)}'; {hint}")
    fail_on = _texts(data, "fail_on")
    criteria(fail_on)
    baseline = data.get("baseline")
    if baseline is not None and not (isinstance(baseline, str) and baseline):
        raise ValueError('baseline is not the name of a folder; write baseline = "NAME"')
    return Config(
        path, fail_on, _texts(data, "accept"), path.parent / baseline if baseline else None
    )


def _texts(data: dict[str, Any], key: str) -> tuple[str, ...]:
    values = data.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f'{key} is not a list of texts; write {key} = ["...", "..."]')
    return tuple(values)
