"""Makes a plan from a YAML file, a preset and the options of the command line."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from capture.environment import require_packages
from capture.errors import PlanInvalid
from capture.experiment.plan import Grid, Plan
from capture.experiment.points import listed, most_points
from capture.experiment.vllm_processes import reserved_argument

KeyPath = tuple[str | int, ...]  # the keys and indexes that lead to a value


class Document(NamedTuple):
    """The values of a file and the line of each, counted from 1."""

    path: Path
    values: dict[str, Any]
    lines: Mapping[KeyPath, int]

    def source(self, keys: KeyPath) -> str:
        """The file, and the line of a value, or of the nearest value that contains it."""
        while keys not in self.lines:
            keys = keys[:-1]
        return f"{self.path}, line {self.lines[keys]}"


def read_yaml(path: Path) -> Document:
    """Reads a mapping; raises PlanInvalid if it is none, or has a key twice."""
    require_packages("yaml")
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise PlanInvalid(f"cannot read {path}: {message}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[KeyPath, int] = {(): 1} if node is None else _lines(node, path)
        values = {} if node is None else yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        message = getattr(error, "problem", None) or "it is nested too deeply"
        where = f", line {mark.line + 1}" if mark else ""
        raise PlanInvalid(f"{path}{where}: {message}") from None
    if not isinstance(values, dict):
        raise PlanInvalid(f"{path}: a plan is a mapping that begins with model: NAME")
    return Document(path, values, lines)


def _lines(root: Any, path: Path) -> dict[KeyPath, int]:
    """The line of each value; that of a mapping is the line of its key."""
    import yaml

    lines: dict[KeyPath, int] = {(): 1}

    def visit(node: Any, keys: KeyPath) -> None:
        lines.setdefault(keys, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*keys, str(key.value))
                line = key.start_mark.line + 1
                if inner in lines:
                    raise PlanInvalid(
                        f"{path}, line {line}: '{key.value}' is already set in line "
                        f"{lines[inner]}; remove one of them"
                    )
                lines[inner] = line
                visit(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                visit(value, (*keys, number))

    visit(root, ())
    return lines


Source = Callable[[KeyPath], str]  # where a value came from: a file and line, or an option
_LOADS = ("batch", "concurrency")  # a grid has one of them


@dataclass
class Merged:
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[KeyPath, str] = field(default_factory=dict)

    def add(self, keys: tuple[str, ...], value: Any, source: Source) -> None:
        """Sets a value; mappings are merged, everything else replaces the old value."""
        inner = self.values
        for key in keys[:-1]:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        if keys[:-1] == ("grid",) and keys[-1] in _LOADS:
            for other in _LOADS:  # from another source; both in one file are an error
                before = self.sources.get(("grid", other), source(keys)).split(",")[0]
                if other != keys[-1] and before != source(keys).split(",")[0]:
                    inner.pop(other, None)
        key = keys[-1]
        if isinstance(value, dict) and value and isinstance(inner.get(key, {}), dict):
            inner.setdefault(key, {})
            for name, one in value.items():
                self.add((*keys, str(name)), one, source)
        else:
            inner[key] = value
        self.sources[keys] = source(keys)

    def source(self, keys: KeyPath, otherwise: str = "the plan") -> str:
        """The source of a value, or of the nearest value that contains it."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.sources:
                return self.sources[keys[:length]]
        return otherwise


class Override(NamedTuple):
    keys: tuple[str, ...]
    value: Any
    option: str

    def source(self, _place: KeyPath) -> str:
        return self.option


def suggestion(wrong: str, known: Sequence[str]) -> str:
    close = get_close_matches(wrong, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"


def parse_set(text: str) -> Override:
    """`grid.prompt_tokens=[128, 1024]`: any key, with a value in YAML; or PlanInvalid."""
    import yaml

    key, equals, value = text.partition("=")
    if not (equals and key):
        raise PlanInvalid(f"--set {text}: write it as KEY=VALUE, as in --set repeats=3")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError:
        raise PlanInvalid(f"--set {text}: the value is not YAML; put it in quotes") from None
    return Override(tuple(key.split(".")), parsed, f"--set {text}")


def parse_sweep(*texts: str) -> list[Override]:
    """`batch:1,4,16;prompt_tokens:128,1024`: values of the grid; PlanInvalid for unknown keys."""
    import yaml

    found = dict[str, Override]()
    known = [one.name for one in msgspec.structs.fields(Grid)]
    for part in filter(None, (one.strip() for text in texts for one in text.split(";"))):
        key, colon, values = (one.strip() for one in part.partition(":"))
        if not (colon and values):
            raise PlanInvalid(f"--sweep {part}: write it as KEY:VALUE,VALUE, as in batch:1,4,16")
        if key not in known:
            raise PlanInvalid(f"--sweep {part}: the grid has no '{key}'; {suggestion(key, known)}")
        if key in found:
            raise PlanInvalid(
                f"--sweep {part}: {found[key].option} has '{key}' already; give all values at once"
            )
        parsed = [yaml.safe_load(value) for value in values.split(",")]
        found[key] = Override(("grid", key), parsed, f"--sweep {part}")
    return list(found.values())


_MOST_POINTS = 10_000
_LOAD = ("grid", "request_rate")


def validation_errors(plan: Plan) -> Iterator[tuple[KeyPath, str]]:
    """Each error with the keys of its value."""
    grid = plan.grid
    if grid.batch is not None and grid.concurrency is not None:
        yield ("grid", "concurrency"), "a grid has batch or concurrency, not both"
    if plan.bench == "latency" and grid.batch is None:
        yield ("grid",), "vllm bench latency measures batches; add grid.batch"
    is_finite = [math.isfinite(float(rate)) for rate in listed(grid.request_rate)]
    if grid.batch is None and grid.concurrency is None and not all(is_finite):
        yield (
            ("grid",),
            "the grid sets no load (request_rate inf does not limit it); add batch, "
            "concurrency or a finite request_rate",
        )
    if grid.batch is not None and any(is_finite):
        yield _LOAD, "a batch is sent at once: request_rate goes with concurrency, or alone"
    points = most_points(grid)
    if points > _MOST_POINTS:
        yield ("grid",), f"the grid has {points:,} points; at most {_MOST_POINTS:,} can be run"
    if found := reserved_argument(plan.engine):
        yield ("engine", found[0]), found[1]
    for number, arguments in enumerate(grid.engine):
        if found := reserved_argument(arguments):
            yield ("grid", "engine", number, found[0]), found[1]


_PRESETS = Path(__file__).parent / "presets"
_AT = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$")


def presets() -> list[str]:
    return sorted(file.stem for file in _PRESETS.glob("*.yaml"))


def read_plan(
    path: Path | None, *, preset: str | None = None, overrides: Sequence[Override] = ()
) -> Plan:
    """The plan of a file, over a preset, under overrides.

    Raises PlanInvalid: one line, which names the file and the line, or the option.
    """
    merged = Merged()
    files = [_PRESETS / f"{preset}.yaml"] if preset else []
    for file in [*files, *([path] if path else [])]:
        document = read_yaml(file)
        for key, value in document.values.items():
            merged.add((str(key),), value, document.source)
    for one in overrides:
        merged.add(one.keys, one.value, one.source)
    if not merged.values and path:
        raise PlanInvalid(
            f"{path} is empty; begin it with model: NAME, or use --preset and --model"
        )
    if not merged.values:
        raise PlanInvalid("there is no plan; name a YAML file, or --preset with --model NAME")
    plan = _converted(merged)
    for keys, message in validation_errors(plan):
        where = merged.source(keys, otherwise=str(path or preset or "the plan"))
        raise PlanInvalid(f"{where}: {message}")
    return plan


def _converted(merged: Merged) -> Plan:
    try:
        return msgspec.convert(merged.values, Plan)
    except msgspec.ValidationError as error:
        text = str(error)
        at = _AT.search(text)
        message = text[: at.start()] if at else text
        keys: KeyPath = tuple(
            int(number) if number.isdigit() else name or number
            for name, number in _STEP.findall(at[1] if at else "")
        )
        if unknown := _UNKNOWN.match(message):
            keys = (*keys, unknown[1])
            message = f"there is no key '{_dotted(keys)}'; {_hint(keys)}"
        elif message.startswith("Object missing required field"):
            key = message.split("`")[1]
            how = "add it, or use --model NAME" if key == "model" else "add it"
            raise PlanInvalid(f"the plan has no '{key}'; {how}") from None
        else:
            message = message.replace("`", "").replace("Expected", "expected", 1)
            message = f"{_dotted(keys)}: {message}"
        raise PlanInvalid(f"{merged.source(keys)}: {message}") from None


def _dotted(keys: KeyPath) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in keys)[1:]


def _hint(keys: KeyPath) -> str:
    """What to write instead of an unknown key."""
    if len(keys) == 1 and keys[0] in _keys(("grid",)):
        return "it belongs under grid:"
    return suggestion(str(keys[-1]), _keys(keys[:-1]))


def _keys(keys: KeyPath) -> list[str]:
    kind: Any = Plan
    for key in keys:
        kind = next((f.type for f in msgspec.structs.fields(kind) if f.name == key), None)
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return []
    return [one.name for one in msgspec.structs.fields(kind)]
