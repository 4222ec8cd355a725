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
from traceql.runs.compare.sides import MANIFEST, RUN_DOCUMENT, is_baseline, runs_of
from traceql.util.files import is_database

if TYPE_CHECKING:
    from traceql.runs.compare.sides import RunProfile


_DATABASE_SUFFIXES = (".duckdb", ".db")
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
    """One run, and its database, run directory or baseline."""

    place: Path
    run: "RunProfile"

    @cached_property
    def facts(self) -> dict[str, str]:
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
        manifest = self.place / MANIFEST
        if self.run.database is None:
            try:
                saved = json.loads(manifest.read_text(encoding="utf-8"))["saved"]
                return int(datetime.fromisoformat(saved).timestamp()) * 10**9, "baseline"
            except (OSError, ValueError, KeyError, TypeError):
                pass
        return (manifest if self.place.is_dir() else self.place).stat().st_mtime_ns, "file"

    @cached_property
    def commit(self) -> str:
        """The commit of the folder that it was started in, -dirty if files differed; else empty."""
        commit = self.facts.get("git.commit", "")[:_SHORT]
        return f"{commit}-dirty" if commit and self.facts.get("git.dirty") == "true" else commit

    @cached_property
    def vllm_commit(self) -> str:
        """The commit of vLLM, if its version has one; else empty."""
        return self.facts.get("vllm.commit", "")[:_SHORT]

    def label(self, by: By) -> str:
        if by is By.TIME:
            return f"{format_time(self.time[0])}:{self.time[0] // 10**9 % 60:02}"
        return self.commit if by is By.COMMIT else self.vllm_commit


def find_runs(folder: Path) -> list[Path]:
    """The databases, run directories and baselines in a folder at any depth, by path.

    Raises TraceNotFound if there are none, and TraceqlError if it cannot be read.
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
    if is_baseline(folder) or (folder / RUN_DOCUMENT).is_file():
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

    `on_place` is called before a run directory is loaded, which may take minutes.
    """
    found: list[Recorded] = []
    skipped: list[str] = []
    quick = {place for place in places if place.is_file() or is_baseline(place)}
    with ThreadPoolExecutor(max_workers=4) as pool:
        begun = {place: pool.submit(runs_of, [place]) for place in places if place in quick}
        for place in places:
            if place not in quick:
                on_place(place)
            try:
                own = begun[place].result() if place in quick else runs_of([place])
                found += [Recorded(place, run) for run in own]
            except TraceqlError as error:
                skipped.append(str(error))
            except OSError as error:
                skipped.append(f"{place}: {error.strerror or error}")
    found.sort(key=lambda one: (one.time[0], one.run.name))
    once: list[Recorded] = []  # also if there are a run directory and its database
    for one in found:
        of_that_time = (other for other in once if other.time == one.time)
        twin = next((other for other in of_that_time if _same(one, other)), None)
        if twin is None:
            once.append(one)
        else:
            skipped.append(f"{one.run.name} is the same recording as {twin.run.name}")
    return once, skipped


def _same(one: Recorded, other: Recorded) -> bool:
    """Whether they are of the same traces; baselines lack ignored facts."""
    facts = [
        {name: value for name, value in each.facts.items() if not is_ignored(name)}
        for each in (one, other)
    ]
    return facts[0] == facts[1] and all(
        one.run.profile[name].equals(other.run.profile[name]) for name in _COMPARED_TABLES
    )


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
        parts = [f"{self._model} on {self._gpu}"]
        parts += [
            f"{size.upper()} {number}"
            for size in _SIZES
            if (number := self.facts.get(f"parallel.{size}", "1")) != "1"
        ]
        return ", ".join([*parts, self.suffix] if self.suffix else parts)

    @property
    def _model(self) -> str:
        if name := PurePath(self.facts.get("run.model", "")).name:
            return name
        family, layers = self.facts.get("model.family"), self.facts.get("model.layers")
        if family is None:
            return "a program"
        return f"{family} with {layers} layers" if layers else family

    @property
    def _gpu(self) -> str:
        name = self.facts.get("gpu.name", "unknown")
        for maker in _MAKERS:
            name = name.removeprefix(maker)
        return "an unknown GPU" if name == "unknown" else name


def setups(
    runs: Iterable[Recorded], *, accept: Collection[str] = ()
) -> tuple[list[Setup], list[str]]:
    """The set-ups of runs by time, and a sentence for each run that is skipped: events are missing.

    `accept` has names of facts, or their prefixes up to a dot, that may differ; "all" for all.
    """
    found: list[Setup] = []
    skipped = []
    for run in runs:
        ledger = [("new", 0, *one) for one in run.facts.items() if one[0].startswith(_LEDGER)]
        failed = differences(ledger, accepted=accept)
        if lost := [check for one in failed if one.effect is Effect.FORBIDS for check in one.new]:
            skipped.append(f"{run.run.name} fails its ledger ({', '.join(lost)}); see traceql info")
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
            # The method of a quantization rather than its details.
            differing.sort(key=lambda one: not one[0].endswith(".quant_method"))
            known = f"KV lengths {'known' if setup.has_kv_lengths else 'unknown'}"
            setup.suffix = " ".join(differing[0]) if differing else known
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
    return [
        (one.name, ", ".join(one.new) or "unknown")
        for one in differences(facts, accepted=accept)
        if one.effect is Effect.FORBIDS
        or (keeps_apart(one.name) and not is_accepted(one.name, accept))
    ]
