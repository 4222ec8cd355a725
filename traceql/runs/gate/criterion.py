"""Criteria such as `decode.step > 2%`, their metrics, and the file that holds them."""

import re
import tomllib
from collections.abc import Sequence
from csv import DictReader
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from traceql.errors import CriterionInvalid
from traceql.util.text import one_line, shortened, suggestion

_FILE = Path(__file__).with_name("metrics.csv")
PHASES = ("prefill", "decode", "mixed", "idle", "unknown")  # of the column unit.phase
ALL_PHASES = "all"
SCOPES = (ALL_PHASES, *PHASES)


@dataclass(frozen=True)
class Metric:
    """A metric of table change; its kind is step, part, role, latency or rate."""

    name: str
    kind: str

    @property
    def has_scope(self) -> bool:
        """Whether steps of one phase have a value of their own."""
        return self.kind not in ("latency", "rate")

    @property
    def more_is_better(self) -> bool:
        return self.kind == "rate"


@cache
def metrics() -> dict[str, Metric]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {row["metric"]: Metric(row["metric"], row["kind"]) for row in DictReader(file)}


def metric_named(name: str) -> Metric | None:
    """The metric; None if there is none. `+` joins two roles that one kernel can have together."""
    known = metrics()
    if name in known:
        return known[name]
    roles = [known.get(role) for role in name.split("+")]
    is_group = len(roles) == 2 and all(role and role.kind == "role" for role in roles)
    return Metric(name, "role") if is_group else None


_FORM = re.compile(
    r"\s*(?P<name>[\w.+]+)\s*(?P<sign>[<>])\s*(?P<limit>[+-]?\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>%?)\s*",
    re.ASCII,
)
_SUGGESTED = re.compile(r"'([^']+)'")
_EXAMPLE = '"decode.step > 2%"'
_LONGEST = 80


@dataclass(frozen=True)
class Criterion:
    """A metric, and the change from which it is a regression, percent above 0.

    The scope is a phase, or all; None for a metric of whole runs.
    """

    scope: str | None
    metric: Metric
    limit_pct: float

    @property
    def name(self) -> str:
        is_whole = self.scope is None or self.scope == ALL_PHASES
        return self.metric.name if is_whole else f"{self.scope}.{self.metric.name}"

    @property
    def limit(self) -> str:
        return f"{self.limit_pct:g}%"

    def __str__(self) -> str:
        sign = "< -" if self.metric.more_is_better else "> "
        return f"{self.name} {sign}{self.limit}"


def criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """The criteria; raises CriterionInvalid if a text is none, or two are about the same metric."""
    found: dict[tuple[str | None, str], Criterion] = {}
    for text in texts:
        one = criterion(text)
        key = (one.scope, one.metric.name)
        if key in found:
            raise CriterionInvalid(f"two criteria are about {one.name}; keep one of them")
        found[key] = one
    return tuple(found.values())


def criterion(text: str) -> Criterion:
    """The criterion of a text such as `prefill.exposed_comm > 5%` or `tokens_per_second < -3%`.

    Raises CriterionInvalid, which suggests what may be meant.
    """
    parts = _FORM.fullmatch(text)
    if parts is None:
        raise CriterionInvalid(
            f"{_quoted(text)} is not a criterion; write METRIC > X%, as {_EXAMPLE}"
        )
    name, sign, limit = parts["name"], parts["sign"], float(parts["limit"])
    if not parts["unit"]:
        raise CriterionInvalid(
            f'{_quoted(text)} has no percent sign; write "{name} {sign} {parts["limit"]}%"'
        )
    found = Criterion(*_scope_and_metric(name), abs(limit))
    more_is_better = found.metric.more_is_better
    if not limit:
        raise CriterionInvalid(
            f"a limit of 0% for {found.name} needs an improvement to pass; use the smallest change "
            "that matters, such as 1%"
        )
    if more_is_better and found.limit_pct >= 100:
        raise CriterionInvalid(f"{found.name} cannot fall by {found.limit}; use less than 100%")
    if (sign == "<") != more_is_better or more_is_better != (limit < 0):
        better = "more" if more_is_better else "less"
        raise CriterionInvalid(f'{better} {found.name} is not a regression; write "{found}"')
    return found


def _scope_and_metric(name: str) -> tuple[str | None, Metric]:
    if metric := metric_named(name):
        return (ALL_PHASES if metric.has_scope else None), metric
    scope, dot, rest = name.partition(".")
    metric = metric_named(rest)
    if dot and scope in SCOPES and metric:
        if not metric.has_scope:
            raise CriterionInvalid(f"{rest} is of whole runs, not of phases; write {rest} alone")
        return scope, metric
    if dot and metric:
        hint = suggestion(scope, SCOPES) or f"there are {', '.join(SCOPES)}"
        raise CriterionInvalid(f"there is no phase {_quoted(scope)}; {hint}")
    wrong, before = (rest, f"{scope}.") if dot and scope in SCOPES else (name, "")
    known = metrics()
    usual = ", ".join(one.name for one in known.values() if one.kind != "role")
    hint = f"there are {usual}, and the roles of kernels, such as qkv_proj"
    if similar := suggestion(wrong, known):  # each with the phase, if it has one
        hint = _SUGGESTED.sub(
            lambda name: f"'{before if known[name[1]].has_scope else ''}{name[1]}'", similar
        )
    raise CriterionInvalid(f"there is no metric {_quoted(wrong)}; {hint}")


def _quoted(text: str) -> str:
    return f"'{shortened(one_line(text), _LONGEST)}'"


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
    """Reads the nearest file in this folder or above it, up to the root of the repository.

    Outside a repository, only the folder itself counts. Raises CriterionInvalid if it is wrong.
    """
    above = [folder, *folder.parents]
    root = next((place for place in above if (place / ".git").exists()), folder)
    for place in above[: above.index(root) + 1]:
        if (place / NAME).is_file():
            return read_config(place / NAME)
    return Config()


def read_config(path: Path) -> Config:
    """The contents of a file; raises CriterionInvalid if they are wrong, or cannot be read."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CriterionInvalid(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise CriterionInvalid(f"{path} is not TOML: {one_line(str(error))}") from None

    def texts(key: str) -> tuple[str, ...]:
        values = data.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise CriterionInvalid(
                f'{path}: {key} is not a list of texts; write {key} = ["...", "..."]'
            )
        return tuple(values)

    for key in data:
        if key not in _KEYS:
            hint = suggestion(key, _KEYS) or f"there are {', '.join(_KEYS)}"
            raise CriterionInvalid(f"{path}: unknown key '{one_line(key)}'; {hint}")
    fail_on = texts("fail_on")
    try:
        criteria(fail_on)
    except CriterionInvalid as error:
        raise CriterionInvalid(f"{path}: {error}") from None
    baseline = data.get("baseline")
    if baseline is not None and not (isinstance(baseline, str) and baseline):
        raise CriterionInvalid(
            f'{path}: baseline is not the name of a folder; write baseline = "NAME"'
        )
    return Config(path, fail_on, texts("accept"), path.parent / baseline if baseline else None)
