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
            "engine": {
                "model": model, "dummy_weights": True, "tp": self.tp, "pp": self.pp, "dp": self.dp,
                "ep": self.ep, "arguments": dict(self.arguments), "environment": {},
            },
            "bench": bench, "batch": self.batch, "concurrency": self.concurrency,
            "request_rate": self.request_rate, "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "requests": self.batch or 4 * (self.concurrency or 8),
            "gpus": self.tp * self.pp * self.dp,
        }  # fmt: skip


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
    record = {"profile": any(point.profiled for point in points)}
    facts = [point.facts(model, bench) for point in points]
    document = {
        "schema_version": 1,
        "plan": {"model": model, "bench": bench, "repeats": wanted, "record": record} | plan,
        "points": [one for one, p in zip(facts, points, strict=True) if p.skipped is None],
        "skipped": [
            one | {"reason": p.skipped} for one, p in zip(facts, points, strict=True) if p.skipped
        ],
    }
    _write(folder / "plan.json", document)
    for order, (point, known) in enumerate(zip(points, facts, strict=True)):
        for number, said in enumerate(point.said, start=1):
            server = f"servers/{point.engine_key}/repeat-{number}.1"
            (folder / server).mkdir(parents=True, exist_ok=True)
            (folder / server / "log.txt").write_text(log)
            place = folder / "points" / point.path / f"repeat-{number}"
            _write_repeat(place, said, _run(known, number, order, server))
        if point.profiled is not None:
            place = folder / "points" / point.path / "profiled"
            shutil.copytree(point.profiled, place)
            file = place / "run.json"
            captured = json.loads(file.read_text()) if file.exists() else {}
            run = _run(known, 0, order, f"servers/{point.engine_key}/profiled.1")
            _write(file, run | captured | {"status": "complete", "reason": None})
    return folder


def latencies(**medians_ms: float) -> dict[str, float]:
    """Keys of bench.json for medians: latencies(ttft=12.0) has median_ttft_ms."""
    return {f"median_{name}_ms": value for name, value in medians_ms.items()}


def _write_repeat(place: Path, said: Row | None, run: dict[str, Any]) -> None:
    if said is None:
        _write(place / "run.json", run | {"status": "failed", "reason": "out of GPU memory"})
        return
    requests = run["experiment"]["point"]["requests"]
    _write(place / "bench.json", {"completed": requests, "failed": 0, **said})
    window = {"begin_unix_ns": BEGIN_UNIX_NS, "end_unix_ns": BEGIN_UNIX_NS + 10**9}
    _write(place / "metrics.json", {"passes": {"unprofiled": window}})
    _write(place / "run.json", run | {"status": "complete", "reason": None})


def _run(facts: Mapping[str, Any], number: int, order: int, server: str) -> dict[str, Any]:
    return {
        "schema_version": 1, "kind": "vllm-bench",
        "experiment": {
            "point": facts, "repeat": number, "order": order,
            "server": {"folder": server, "command": ["vllm", "serve", "model"], "start_s": 30.0},
            "seconds": 5.0,
        },
        "start_unix_ns": BEGIN_UNIX_NS, "environment": {},
        "versions": {"vllm": "0.32.0", "torch": "2.13.0"}, "host": {"name": "node"}, "git": None,
        "gpus": [{"name": "NVIDIA H200", "driver": "570.1"}] * facts["gpus"],
    }  # fmt: skip


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
