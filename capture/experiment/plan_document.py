"""Makes a plan from a YAML file, a preset and the options of the command line."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from capture.errors import PlanInvalid
from capture.experiment.arguments import misplaced
from capture.experiment.plan import Grid, Plan
from capture.experiment.points import listed, most_points
from capture.versions import require_packages

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


Source = Callable[[Place], str]  # says where the value of a place came from
_LOADS = ("batch", "concurrency")  # of which a grid has one


@dataclass
class Merged:
    """Values of several sources, and where each of them came from."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[Place, str] = field(default_factory=dict)

    def add(self, place: tuple[str, ...], value: Any, source: Source) -> None:
        """Sets a value; mappings are merged, everything else replaces what was there."""
        inner = self.values
        for key in place[:-1]:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        if place[:-1] == ("grid",) and place[-1] in _LOADS:
            for other in _LOADS:
                if other != place[-1] and self._is_older(("grid", other), source(place)):
                    inner.pop(other, None)
        key = place[-1]
        if isinstance(value, dict) and value and isinstance(inner.get(key, {}), dict):
            inner.setdefault(key, {})
            for name, one in value.items():
                self.add((*place, str(name)), one, source)
        else:
            inner[key] = value
        self.sources[place] = source(place)

    def _is_older(self, place: Place, source: str) -> bool:
        """Whether a value came from another source: one file with both is a mistake."""
        before = self.sources.get(place)
        return before is not None and before.split(",")[0] != source.split(",")[0]

    def source(self, place: Place, otherwise: str = "the plan") -> str:
        """Where a value came from, or the nearest one around it."""
        for length in range(len(place), 0, -1):
            if place[:length] in self.sources:
                return self.sources[place[:length]]
        return otherwise


@dataclass(frozen=True)
class Override:
    """A value of the command line, with the option that gave it."""

    place: tuple[str, ...]
    value: Any
    option: str

    def source(self, _place: Place) -> str:
        return self.option


def meant(wrong: str, known: Sequence[str]) -> str:
    """The key that was meant, perhaps; else all that there are."""
    close = get_close_matches(wrong, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"


def parsed_set(text: str) -> Override:
    """`grid.prompt_tokens=[128, 1024]`: any key, with a value in YAML.

    Raises:
        PlanInvalid: it is not KEY=VALUE.
    """
    import yaml

    key, equals, value = text.partition("=")
    if not (equals and key):
        raise PlanInvalid(f"--set {text}: write it as KEY=VALUE, as in --set repeats=3")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError:
        raise PlanInvalid(f"--set {text}: the value is not YAML; put it in quotes") from None
    return Override(tuple(key.split(".")), parsed, f"--set {text}")


def parsed_sweep(*texts: str) -> list[Override]:
    """`batch:1,4,16;prompt_tokens:128,1024`: values of the grid.

    Raises:
        PlanInvalid: a part is not KEY:VALUE,VALUE, the grid has no such key, or has it already.
    """
    import yaml

    found = dict[str, Override]()
    known = [one.name for one in msgspec.structs.fields(Grid)]
    for part in filter(None, (one.strip() for text in texts for one in text.split(";"))):
        key, colon, values = (one.strip() for one in part.partition(":"))
        if not (colon and values):
            raise PlanInvalid(f"--sweep {part}: write it as KEY:VALUE,VALUE, as in batch:1,4,16")
        if key not in known:
            raise PlanInvalid(f"--sweep {part}: the grid has no '{key}'; {meant(key, known)}")
        if key in found:
            raise PlanInvalid(
                f"--sweep {part}: {found[key].option} has '{key}' already; give all values at once"
            )
        parsed = [yaml.safe_load(value) for value in values.split(",")]
        found[key] = Override(("grid", key), parsed, f"--sweep {part}")
    return list(found.values())


_MOST_POINTS = 10_000
_LOAD = ("grid", "request_rate")


def mistakes(plan: Plan) -> Iterator[tuple[Place, str]]:
    """Each mistake with its place."""
    grid = plan.grid
    if grid.batch is not None and grid.concurrency is not None:
        yield ("grid", "concurrency"), "a grid has batch or concurrency, not both"
    if plan.bench == "latency" and grid.batch is None:
        yield ("grid",), "vllm bench latency measures batches; add grid.batch"
    is_finite = [math.isfinite(float(rate)) for rate in listed(grid.request_rate)]
    if grid.batch is None and grid.concurrency is None and not all(is_finite):
        yield (
            ("grid",),
            "the grid says nothing of the load (request_rate inf does not limit it); add batch, "
            "concurrency or a finite request_rate",
        )
    if grid.batch is not None and any(is_finite):
        yield _LOAD, "a batch is sent at once: request_rate goes with concurrency, or alone"
    points = most_points(grid)
    if points > _MOST_POINTS:
        yield ("grid",), f"the grid has {points:,} points; at most {_MOST_POINTS:,} can be run"
    if found := misplaced(plan.engine):
        yield ("engine", found[0]), found[1]
    for number, arguments in enumerate(grid.engine):
        if found := misplaced(arguments):
            yield ("grid", "engine", number, found[0]), found[1]


_PRESETS = Path(__file__).parent / "presets"
_AT = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$")


def presets() -> list[str]:
    """The names of the presets."""
    return sorted(file.stem for file in _PRESETS.glob("*.yaml"))


def read_plan(
    path: Path | None, *, preset: str | None = None, overrides: Sequence[Override] = ()
) -> Plan:
    """The plan of a file, over a preset, under overrides.

    Raises:
        PlanInvalid: one line, which names the file and the line, or the option.
    """
    merged = Merged()
    files = [_PRESETS / f"{preset}.yaml"] if preset else []
    for file in [*files, *([path] if path else [])]:
        document = read_yaml(file)
        for key, value in document.values.items():
            merged.add((str(key),), value, _told(document))
    for one in overrides:
        merged.add(one.place, one.value, one.source)
    if not merged.values and path:
        raise PlanInvalid(
            f"{path} is empty; begin it with model: NAME, or use --preset and --model"
        )
    if not merged.values:
        raise PlanInvalid("there is no plan; name a YAML file, or --preset with --model NAME")
    plan = _converted(merged)
    for place, said in mistakes(plan):
        where = merged.source(place, otherwise=str(path or preset or "the plan"))
        raise PlanInvalid(f"{where}: {said}")
    return plan


def _told(document: Document) -> Source:
    return lambda place: f"{document.path}, line {document.line(place)}"


def _converted(merged: Merged) -> Plan:
    try:
        return msgspec.convert(merged.values, Plan)
    except msgspec.ValidationError as error:
        text = str(error)
        at = _AT.search(text)
        place = _place(at[1]) if at else ()
        said = text[: at.start()] if at else text
        if unknown := _UNKNOWN.match(said):
            place = (*place, unknown[1])
            said = f"there is no key '{_dotted(place)}'; {_hint(place)}"
        elif said.startswith("Object missing required field"):
            key = said.split("`")[1]
            how = "add it, or use --model NAME" if key == "model" else "add it"
            raise PlanInvalid(f"the plan has no '{key}'; {how}") from None
        else:
            said = f"{_dotted(place)}: {_plain(said)}"
        raise PlanInvalid(f"{merged.source(place)}: {said}") from None


def _place(text: str) -> Place:
    return tuple(
        int(number) if number.isdigit() else name or number for name, number in _STEP.findall(text)
    )


def _dotted(place: Place) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place)[1:]


def _hint(place: Place) -> str:
    """The key that may have been meant."""
    if len(place) == 1 and place[0] in _keys(("grid",)):
        return "it belongs under grid:"
    return meant(str(place[-1]), _keys(place[:-1]))


def _keys(place: Place) -> list[str]:
    kind: Any = Plan
    for key in place:
        kind = next((f.type for f in msgspec.structs.fields(kind) if f.name == key), None)
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return []
    return [one.name for one in msgspec.structs.fields(kind)]


def _plain(said: str) -> str:
    """What msgspec says, without its marks."""
    return said.replace("`", "").replace("Expected", "expected", 1)
