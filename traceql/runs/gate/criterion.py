"""Criteria such as `decode.step > 2%`, their metrics, and the file that holds them."""

import re
import tomllib
from collections.abc import Sequence
from csv import DictReader
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from traceql.errors import CriterionInvalid
from traceql.util.text import one_line, shortened, suggestion

_FILE = Path(__file__).with_name("metrics.csv")
PHASES = ("prefill", "decode", "mixed", "idle", "unknown")  # of the column unit.phase
ALL_PHASES = "all"
SCOPES = (ALL_PHASES, *PHASES)


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: as in the table change.
        kind: step, part, role, latency or rate.
    """

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
    """All metrics, by name."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {row["metric"]: Metric(row["metric"], row["kind"]) for row in DictReader(file)}


def metric_named(name: str) -> Metric | None:
    """The metric; None if there is none. `+` joins two roles that one kernel can have together."""
    known = metrics()
    if name in known:
        return known[name]
    roles = name.split("+")
    is_group = len(roles) == 2 and all(
        role in known and known[role].kind == "role" for role in roles
    )
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
    """A metric, and the change from which it is a regression.

    Attributes:
        scope: a phase, or all; None for a metric of whole runs.
        limit_pct: by how much it may get worse, percent; above 0.
    """

    scope: str | None
    metric: Metric
    limit_pct: float

    @property
    def name(self) -> str:
        """The metric with its phase."""
        is_whole = self.scope is None or self.scope == ALL_PHASES
        return self.metric.name if is_whole else f"{self.scope}.{self.metric.name}"

    @property
    def limit(self) -> str:
        return f"{self.limit_pct:g}%"

    def __str__(self) -> str:
        sign = "< -" if self.metric.more_is_better else "> "
        return f"{self.name} {sign}{self.limit}"


def criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """The criteria of these texts.

    Raises:
        CriterionInvalid: a text is none, or two are about the same metric.
    """
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

    Raises:
        CriterionInvalid: the message suggests what may be meant.
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
    scope, metric = _scope_and_metric(name)
    _require_worse(Criterion(scope, metric, abs(limit)), sign, limit)
    return Criterion(scope, metric, abs(limit))


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
    raise CriterionInvalid(f"there is no metric {_quoted(wrong)}; {_metric_hint(before, wrong)}")


def _metric_hint(before: str, wrong: str) -> str:
    """Suggests similar metrics, with the phase before them if they have one; else lists all."""
    known = metrics()
    if hint := suggestion(wrong, known):
        return _SUGGESTED.sub(
            lambda name: f"'{before if known[name[1]].has_scope else ''}{name[1]}'", hint
        )
    usual = [one.name for one in known.values() if one.kind != "role"]
    return f"there are {', '.join(usual)}, and the roles of kernels, such as qkv_proj"


def _require_worse(one: Criterion, sign: str, limit: float) -> None:
    """Requires a change for the worse."""
    if not one.limit_pct:
        raise CriterionInvalid(
            f"a limit of 0% for {one.name} needs an improvement to pass; use the smallest change "
            "that matters, such as 1%"
        )
    if one.metric.more_is_better and one.limit_pct >= 100:
        raise CriterionInvalid(f"{one.name} cannot fall by {one.limit}; use less than 100%")
    falls = sign == "<"
    if falls != one.metric.more_is_better or falls != (limit < 0):
        better = "more" if one.metric.more_is_better else "less"
        raise CriterionInvalid(f'{better} {one.name} is not a regression; write "{one}"')


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
        CriterionInvalid: it cannot be read, or its content is wrong.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CriterionInvalid(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise CriterionInvalid(f"{path} is not TOML: {one_line(str(error))}") from None
    try:
        return _config(path, data)
    except (ValueError, CriterionInvalid) as error:
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
