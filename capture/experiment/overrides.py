"""What the command line overrides in a plan: --set and --sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import msgspec

from capture.errors import PlanInvalid
from capture.experiment.plan import Grid
from capture.experiment.yaml_document import Place


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
