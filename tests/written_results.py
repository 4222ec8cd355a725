"""Writes folders of results as traceql experiment run leaves them, of numbers that a test knows."""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BEGIN_UNIX_NS = 1_800_000_000_000_000_000
Row = Mapping[str, Any]


def only(rows: Iterable[Row], **values: Any) -> Row:
    (row,) = (r for r in rows if all(r[name] == value for name, value in values.items()))
    return row


def total(row: Row, columns: Sequence[str]) -> int:
    return sum(row[column] or 0 for column in columns)


@dataclass(frozen=True)
class WrittenPoint:
    """A point, and what vllm bench said in each of its repeats.

    Attributes:
        said: for each repeat the keys of bench.json; None for a failed repeat.
        profiled: a run directory whose traces are those of the repeat under the profiler.
        skipped: why it was left out.
    """

    said: Sequence[Mapping[str, Any] | None] = ()
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    batch: int | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    prompt_tokens: int = 128
    output_tokens: int = 16
    arguments: Mapping[str, Any] = field(default_factory=dict)
    profiled: Path | None = None
    skipped: str | None = None

    def engine(self, model: str) -> dict[str, Any]:
        return {
            "model": model,
            "dummy_weights": True,
            "tp": self.tp,
            "pp": self.pp,
            "dp": self.dp,
            "ep": self.ep,
            "arguments": dict(self.arguments),
            "environment": {},
        }

    @property
    def engine_key(self) -> str:
        ep = "-ep" if self.ep else ""
        more = "".join(f"-{name}{value}" for name, value in self.arguments.items())
        return f"tp{self.tp}-pp{self.pp}-dp{self.dp}{ep}{more}"

    @property
    def path(self) -> str:
        load = f"batch{self.batch}-conc{self.concurrency}-rate{self.request_rate}"
        return f"{self.engine_key}/{load}-in{self.prompt_tokens}-out{self.output_tokens}"

    def facts(self, model: str, bench: str) -> dict[str, Any]:
        return {
            "path": self.path,
            "engine": self.engine(model),
            "bench": bench,
            "batch": self.batch,
            "concurrency": self.concurrency,
            "request_rate": self.request_rate,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "requests": self.batch or 4 * (self.concurrency or 8),
            "gpus": self.tp * self.pp * self.dp,
        }


def write_results(
    folder: Path,
    points: Sequence[WrittenPoint],
    *,
    model: str = "qwen3-8b",
    bench: str = "serve",
    repeats: int | None = None,
    log: str = "",
    **plan: Any,
) -> Path:
    """Writes a folder of results.

    Args:
        repeats: that the plan asks for; as many as the first point has by default.
        log: what each start of a server logged.
        plan: other keys of the plan.
    """
    wanted = len(points[0].said) if repeats is None else repeats
    profile = any(point.profiled for point in points)
    facts: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for point in points:
        one = point.facts(model, bench)
        facts[point.skipped is None].append(
            one | ({"reason": point.skipped} if point.skipped else {})
        )
    document = {
        "schema_version": 1,
        "plan": {"model": model, "bench": bench, "repeats": wanted, "record": {"profile": profile}}
        | plan,
        "points": facts[True],
        "skipped": facts[False],
    }
    _write(folder / "plan.json", document)
    for order, point in enumerate(points):
        for number, said in enumerate(point.said, start=1):
            _write_repeat(folder, point, number, order, said, point.facts(model, bench), log)
        if point.profiled is not None:
            _write_profiled(folder, point, order, point.facts(model, bench))
    return folder


def latencies(**medians_ms: float) -> dict[str, float]:
    """Keys of bench.json for medians: latencies(ttft=12.0) has median_ttft_ms."""
    return {f"median_{name}_ms": value for name, value in medians_ms.items()}


def _write_repeat(
    folder: Path,
    point: WrittenPoint,
    number: int,
    order: int,
    said: Mapping[str, Any] | None,
    facts: Mapping[str, Any],
    log: str,
) -> None:
    place = folder / "points" / point.path / f"repeat-{number}"
    server = f"servers/{point.engine_key}/repeat-{number}.1"
    (folder / server).mkdir(parents=True, exist_ok=True)
    (folder / server / "log.txt").write_text(log)
    run = _run(facts, number, order, server)
    if said is None:
        _write(place / "run.json", run | {"status": "failed", "reason": "out of GPU memory"})
        return
    _write(place / "bench.json", {"completed": facts["requests"], "failed": 0, **said})
    window = {"begin_unix_ns": BEGIN_UNIX_NS, "end_unix_ns": BEGIN_UNIX_NS + 10**9}
    _write(place / "metrics.json", {"passes": {"unprofiled": window}})
    _write(place / "run.json", run | {"status": "complete", "reason": None})


def _write_profiled(
    folder: Path, point: WrittenPoint, order: int, facts: Mapping[str, Any]
) -> None:
    assert point.profiled is not None
    place = folder / "points" / point.path / "profiled"
    shutil.copytree(point.profiled, place)
    file = place / "run.json"
    captured = json.loads(file.read_text()) if file.exists() else {}
    server = f"servers/{point.engine_key}/profiled.1"
    _write(file, _run(facts, 0, order, server) | captured | {"status": "complete", "reason": None})


def _run(facts: Mapping[str, Any], number: int, order: int, server: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "vllm-bench",
        "experiment": {
            "point": facts,
            "repeat": number,
            "order": order,
            "server": {"folder": server, "command": ["vllm", "serve", "model"], "start_s": 30.0},
            "seconds": 5.0,
        },
        "start_unix_ns": BEGIN_UNIX_NS,
        "environment": {},
        "versions": {"vllm": "0.32.0", "torch": "2.13.0"},
        "host": {"name": "node"},
        "git": None,
        "gpus": [{"name": "NVIDIA H200", "driver": "570.1"}] * facts["gpus"],
    }


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
