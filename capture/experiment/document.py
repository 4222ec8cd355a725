"""Makes a plan of a YAML file, a preset and what the command line overrides."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from capture.errors import PlanInvalid
from capture.experiment.merged import Merged, Source
from capture.experiment.mistakes import mistakes
from capture.experiment.overrides import Override, meant
from capture.experiment.plan import Plan
from capture.experiment.yaml_document import Document, Place, read_yaml

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
