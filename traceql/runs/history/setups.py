"""Groups runs whose times may be compared: the same model, hardware, parallelism and so on."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from traceql.runs.compare.setup import Effect, differences, is_accepted, keeps_apart
from traceql.runs.history.recorded import Recorded

_LEDGER = "ledger."
_KV = "kv"  # the grain of strata that tell lengths of the KV cache apart
_MAKERS = ("NVIDIA ", "AMD ", "Intel ")
_SIZES = ("tp", "pp", "dp")


@dataclass
class Setup:
    """Runs of one set-up, in the order of their times.

    Attributes:
        knows_lengths: whether the runs know the lengths of the KV cache, by which steps are then
            told apart too.
        facts: what any of them knows of it.
        apart: what tells it from an earlier set-up of that name; mostly empty.
    """

    runs: list[Recorded] = field(default_factory=list)
    knows_lengths: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    apart: str = ""

    def add(self, run: Recorded) -> None:
        self.runs.append(run)
        self.facts = {**run.facts, **self.facts}

    @property
    def name(self) -> str:
        """For people: `qwen3-8b on H200, TP 2`."""
        parts = [f"{_model(self.facts)} on {_gpu(self.facts)}"]
        parts += [
            f"{size.upper()} {number}"
            for size in _SIZES
            if (number := self.facts.get(f"parallel.{size}", "1")) != "1"
        ]
        return ", ".join([*parts, *([self.apart] if self.apart else [])])


def setups(
    runs: Iterable[Recorded], *, accept: Collection[str] = ()
) -> tuple[list[Setup], list[str]]:
    """The set-ups, and a sentence for each run that is left out because events are missing.

    Args:
        runs: in the order of their times.
        accept: names of facts, or their beginnings up to a dot, that may differ; all for all.
    """
    found: list[Setup] = []
    skipped = []
    for run in runs:
        if lost := _lost(run.facts, accept):
            skipped.append(f"{run.run.name} fails its ledger ({lost}); see traceql info")
            continue
        lengths = _KV in run.run.profile["stratum"]["grain"].to_pylist()
        alike = (one for one in found if one.knows_lengths == lengths)
        setup = next((one for one in alike if not _apart(one.facts, run.facts, accept)), None)
        if setup is None:
            setup = Setup(knows_lengths=lengths)
            found.append(setup)
        setup.add(run)
    _name_apart(found, accept)
    return found, skipped


def _apart(
    base: Mapping[str, str], new: Mapping[str, str], accept: Collection[str]
) -> list[tuple[str, str]]:
    """The facts that keep runs apart, each with its value in new."""
    sides = (("base", base), ("new", new))
    facts = [
        (side, 0, name, value)
        for side, own in sides
        for name, value in own.items()
        if not name.startswith(_LEDGER)
    ]
    found = differences(facts, accepted=accept)
    return [
        (one.name, ", ".join(one.new) or "unknown")
        for one in found
        if one.effect is Effect.FORBIDS
        or (keeps_apart(one.name) and not is_accepted(one.name, accept))
    ]


def _lost(facts: Mapping[str, str], accept: Collection[str]) -> str:
    """The checks that failed, if that forbids to compare the run."""
    own = [("new", 0, *fact) for fact in facts.items() if fact[0].startswith(_LEDGER)]
    found = differences(own, accepted=accept)
    return ", ".join(", ".join(one.new) for one in found if one.effect is Effect.FORBIDS)


def _name_apart(found: Sequence[Setup], accept: Collection[str]) -> None:
    first: dict[str, Setup] = {}
    for setup in found:
        other = first.setdefault(setup.name, setup)
        if other is not setup:
            differing = _apart(other.facts, setup.facts, accept)
            setup.apart = _told(differing) if differing else _lengths(setup)


def _told(differing: Sequence[tuple[str, str]]) -> str:
    """The difference that tells most: the method of a quantization, not its details."""
    method = (one for one in differing if one[0].endswith(".quant_method"))
    return " ".join(next(method, differing[0]))


def _lengths(setup: Setup) -> str:
    return f"KV lengths {'known' if setup.knows_lengths else 'unknown'}"


def _model(facts: Mapping[str, str]) -> str:
    if name := PurePath(facts.get("run.model", "")).name:
        return name
    family, layers = facts.get("model.family"), facts.get("model.layers")
    if family is None:
        return "a program"
    return f"{family} with {layers} layers" if layers else family


def _gpu(facts: Mapping[str, str]) -> str:
    name = facts.get("gpu.name", "unknown")
    for maker in _MAKERS:
        name = name.removeprefix(maker)
    return "an unknown GPU" if name == "unknown" else name
