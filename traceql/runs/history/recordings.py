"""The runs of a folder by time, grouped into comparable set-ups."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from traceql.errors import TraceNotFound, TraceqlError
from traceql.runs.compare.setup import Effect, differences, is_accepted, is_ignored, keeps_apart
from traceql.runs.compare.sides import is_baseline, runs_of
from traceql.util.files import is_database

if TYPE_CHECKING:
    from traceql.runs.compare.sides import RunProfile


_DATABASE_SUFFIXES = (".duckdb", ".db")
_RUN_DOCUMENT = "run.json"
_MANIFEST = "baseline.json"
# From 2001 to 2200; a profiler without baseTimeNanoseconds counts from the start of the machine.
_UNIX_TIMES_NS = range(10**18, 7_258 * 10**15)
_TIMES = (("time.started_unix_ns", "run.json"), ("time.first_event_unix_ns", "trace"))
_COMPARED_TABLES = ("stratum", "metric")  # equal only in equal recordings
_SHORT = 9  # letters of a commit


class By(StrEnum):
    """The horizontal axis; runs with an equal commit are repeats of one point."""

    TIME = "time"
    COMMIT = "commit"
    VLLM_COMMIT = "vllm-commit"


@dataclass(frozen=True)
class Recorded:
    """One run.

    Attributes:
        place: its database, run directory or baseline.
    """

    place: Path
    run: "RunProfile"

    @cached_property
    def facts(self) -> dict[str, str]:
        """The facts of its set-up, by name."""
        table = self.run.profile["fact"]
        return dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))

    @cached_property
    def time(self) -> tuple[int, str]:
        """When it was recorded, Unix time in ns, and the source of that time.

        That is run.json, else the trace, else the time at which the baseline or file was written.
        """
        for fact, source in _TIMES:
            first = self.facts.get(fact, "").split(",")[0]
            if first.isdecimal() and int(first) in _UNIX_TIMES_NS:
                return int(first), source
        manifest = self.place / _MANIFEST
        if self.run.database is None and (saved := _saved_ns(manifest)) is not None:
            return saved, "baseline"
        return (manifest if self.place.is_dir() else self.place).stat().st_mtime_ns, "file"

    @cached_property
    def commit(self) -> str:
        """The commit of the folder that it was started in; empty if unknown.

        It ends in -dirty if files differed from it.
        """
        commit = self.facts.get("git.commit", "")[:_SHORT]
        return f"{commit}-dirty" if commit and self.facts.get("git.dirty") == "true" else commit

    @cached_property
    def vllm_commit(self) -> str:
        """The commit of vLLM, if its version has one; else empty."""
        return self.facts.get("vllm.commit", "")[:_SHORT]

    def label(self, by: By) -> str:
        """The label on the horizontal axis."""
        if by is By.TIME:
            return f"{format_time(self.time[0])}:{self.time[0] // 10**9 % 60:02}"
        return self.commit if by is By.COMMIT else self.vllm_commit


def find_runs(folder: Path) -> list[Path]:
    """The databases, run directories and baselines in a folder at any depth, by path.

    Raises:
        TraceNotFound: the folder does not exist, or has no run in it.
        TraceqlError: it is not a folder, or cannot be read.
    """
    if not folder.exists():
        raise TraceNotFound(f"{folder} does not exist; use a folder with runs")
    if not folder.is_dir():
        raise TraceqlError(f"{folder} is one file; use the folder of all runs")
    try:
        found = list(_find_runs(folder, set()))
    except OSError as error:
        raise TraceqlError(f"{error.filename}: {error.strerror or error}") from None
    if not found:
        raise TraceNotFound(
            f"{folder} has no database, run directory or baseline in it; load traces with "
            f"traceql load TRACE... -o {folder / 'RUN.duckdb'}"
        )
    return found


def _find_runs(folder: Path, seen: set[Path]) -> Iterator[Path]:
    if folder.resolve() in seen:
        return  # a symbolic link to a parent
    seen.add(folder.resolve())
    if is_baseline(folder) or (folder / _RUN_DOCUMENT).is_file():
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _find_runs(path, seen)
        elif path.suffix in _DATABASE_SUFFIXES and path.is_file() and is_database(path):
            yield path


def recorded_runs(
    places: Sequence[Path], on_place: Callable[[Path], None] = lambda place: None
) -> tuple[list[Recorded], list[str]]:
    """The runs by time, and a sentence for each skipped one.

    Args:
        on_place: called before a run directory is loaded, which may take minutes.
    """
    found: list[Recorded] = []
    skipped: list[str] = []
    quick = {place for place in places if place.is_file() or (place / _MANIFEST).is_file()}
    with ThreadPoolExecutor(max_workers=4) as pool:
        begun = {place: pool.submit(_runs, place) for place in places if place in quick}
        for place in places:
            if place not in quick:
                on_place(place)
            own = begun[place].result() if place in quick else _runs(place)
            if isinstance(own, str):
                skipped.append(own)
            else:
                found += own
    found.sort(key=lambda one: (one.time[0], one.run.name))
    return list(_each_once(found, skipped)), skipped


def _runs(place: Path) -> list[Recorded] | str:
    """The runs of a path, or why it has none."""
    try:
        return [Recorded(place, run) for run in runs_of([place])]
    except TraceqlError as error:
        return str(error)
    except OSError as error:
        return f"{place}: {error.strerror or error}"


def _each_once(runs: Sequence[Recorded], skipped: list[str]) -> Iterator[Recorded]:
    """Each recording once, also if there are a run directory and its database."""
    known: list[Recorded] = []
    for one in runs:
        of_that_time = (other for other in known if other.time == one.time)
        twin = next((other for other in of_that_time if _same(one, other)), None)
        if twin is None:
            known.append(one)
            yield one
        else:
            skipped.append(f"{one.run.name} is the same recording as {twin.run.name}")


def _same(one: Recorded, other: Recorded) -> bool:
    """Whether they are of the same traces; baselines lack ignored facts."""
    facts = [
        {name: value for name, value in each.facts.items() if not is_ignored(name)}
        for each in (one, other)
    ]
    return facts[0] == facts[1] and all(
        one.run.profile[name].equals(other.run.profile[name]) for name in _COMPARED_TABLES
    )


def _saved_ns(manifest: Path) -> int | None:
    try:
        text = json.loads(manifest.read_text(encoding="utf-8"))["saved"]
        return int(datetime.fromisoformat(text).timestamp()) * 10**9
    except (OSError, ValueError, KeyError, TypeError):
        return None


def format_time(time_ns: int) -> str:
    """A UTC time, to the minute."""
    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M}"


_LEDGER = "ledger."
_KV = "kv"  # the grain of strata that are split by the length of the KV cache
_MAKERS = ("NVIDIA ", "AMD ", "Intel ")
_SIZES = ("tp", "pp", "dp")


@dataclass
class Setup:
    """Runs of one set-up, in the order of their times.

    Attributes:
        has_kv_lengths: whether strata of the runs are split by the length of the KV cache.
        facts: of all runs.
        suffix: distinguishes it from an earlier set-up of that name; mostly empty.
    """

    runs: list[Recorded] = field(default_factory=list)
    has_kv_lengths: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    suffix: str = ""

    def add(self, run: Recorded) -> None:
        self.runs.append(run)
        self.facts = {**run.facts, **self.facts}

    @property
    def name(self) -> str:
        """Such as `qwen3-8b on H200, TP 2`."""
        parts = [f"{_model(self.facts)} on {_gpu(self.facts)}"]
        parts += [
            f"{size.upper()} {number}"
            for size in _SIZES
            if (number := self.facts.get(f"parallel.{size}", "1")) != "1"
        ]
        return ", ".join([*parts, self.suffix] if self.suffix else parts)


def setups(
    runs: Iterable[Recorded], *, accept: Collection[str] = ()
) -> tuple[list[Setup], list[str]]:
    """The set-ups, and a sentence for each run that is skipped because events are missing.

    Args:
        runs: by time.
        accept: names of facts, or their prefixes up to a dot, that may differ; "all" for all.
    """
    found: list[Setup] = []
    skipped = []
    for run in runs:
        if lost := _lost(run.facts, accept):
            skipped.append(f"{run.run.name} fails its ledger ({lost}); see traceql info")
            continue
        lengths = _KV in run.run.profile["stratum"]["grain"].to_pylist()
        alike = (one for one in found if one.has_kv_lengths == lengths)
        setup = next((one for one in alike if not _apart(one.facts, run.facts, accept)), None)
        if setup is None:
            setup = Setup(has_kv_lengths=lengths)
            found.append(setup)
        setup.add(run)
    first: dict[str, Setup] = {}
    for setup in found:
        other = first.setdefault(setup.name, setup)
        if other is not setup:
            differing = _apart(other.facts, setup.facts, accept)
            known = "known" if setup.has_kv_lengths else "unknown"
            setup.suffix = _most_specific(differing) if differing else f"KV lengths {known}"
    return found, skipped


def _apart(
    base: Mapping[str, str], new: Mapping[str, str], accept: Collection[str]
) -> list[tuple[str, str]]:
    """The facts that forbid a common series, each with its value in new."""
    facts = [
        (side, 0, name, value)
        for side, own in (("base", base), ("new", new))
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


def _most_specific(differing: Sequence[tuple[str, str]]) -> str:
    """The method of a quantization rather than its details, else the first difference."""
    method = (one for one in differing if one[0].endswith(".quant_method"))
    return " ".join(next(method, differing[0]))


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
