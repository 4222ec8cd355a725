"""A YAML file as plain values that know the lines on which they stand."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import PlanInvalid
from capture.packages import require_packages

Place = tuple[str | int, ...]  # keys and numbers that lead to a value


@dataclass(frozen=True)
class Document:
    """The values of a file, and the line of each place in it, counted from 1."""

    path: Path
    values: dict[str, Any]
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int | None:
        """The line of a value, or of the nearest one around it."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return None


def read_yaml(path: Path) -> Document:
    """Reads a mapping.

    Raises:
        PlanInvalid: it cannot be read, is not YAML, has a key twice, or is no mapping.
    """
    require_packages("yaml")
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise PlanInvalid(f"cannot read {path}: {said}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[Place, int] = {(): 1} if node is None else _lines(node, path)
        values = {} if node is None else yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or "it is nested too deeply"
        where = f", line {mark.line + 1}" if mark else ""
        raise PlanInvalid(f"{path}{where}: {said}") from None
    if not isinstance(values, dict):
        raise PlanInvalid(f"{path}: a plan is a mapping that begins with model: NAME")
    return Document(path, values, lines)


def _lines(root: Any, path: Path) -> dict[Place, int]:
    """The line of each value; a mapping has the line of its key."""
    import yaml

    lines: dict[Place, int] = {(): 1}

    def visit(node: Any, place: Place) -> None:
        lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*place, str(key.value))
                line = key.start_mark.line + 1
                if inner in lines:
                    raise PlanInvalid(
                        f"{path}, line {line}: '{key.value}' stands here again, first in line "
                        f"{lines[inner]}; remove one of them"
                    )
                lines[inner] = line
                visit(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                visit(value, (*place, number))

    visit(root, ())
    return lines
