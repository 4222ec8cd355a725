"""The folder of an experiment's results: repeats, their files and measured values."""

import csv
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import PointFailed, ResultsUnusable
from capture.experiment.points import Engine, Point, repeat_name
from capture.experiment.vllm_processes import LOG
from capture.metrics import summary
from capture.run_directory import write_json
from capture.supervise import log_tail

PLAN = "plan.json"
RUN = "run.json"
_LOCK = ".lock"
_DRAFT = ".draft"


@dataclass(frozen=True)
class Results:
    """The folder of an experiment; only this process and its tasks write to it."""

    path: Path

    def folder(self, point: Point, repeat: int) -> Path:
        return self.path / "points" / point.path / repeat_name(repeat)

    def status(self, point: Point, repeat: int) -> str | None:
        """Complete or failed; None if it was not run, or was killed."""
        status = self._facts(point, repeat).get("status")
        return status if status in ("complete", "failed") else None

    def seconds(self, point: Point, repeat: int) -> float | None:
        """How long a complete repeat took; None if it is not complete."""
        facts = self._facts(point, repeat)
        return float(facts["experiment"]["seconds"]) if facts.get("status") == "complete" else None

    def _facts(self, point: Point, repeat: int) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            facts = json.loads((self.folder(point, repeat) / RUN).read_text())
            return facts if isinstance(facts, dict) else {}
        return {}

    @contextmanager
    def repeat(self, point: Point, repeat: int) -> Iterator[Path]:
        """A draft of the folder of a repeat, which appears under its name after the block."""
        folder = self.folder(point, repeat)
        draft = folder.with_name(f"{_DRAFT}-{folder.name}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)

    def server(self, engine: Engine, repeat: int) -> Path:
        starts, number = self.path / "servers" / engine.key, 1
        while (folder := starts / f"{repeat_name(repeat)}.{number}").exists():
            number += 1
        folder.mkdir(parents=True)
        return folder

    def write_plan(self, facts: dict[str, Any]) -> None:
        write_json(self.path / PLAN, facts)


def require_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise ResultsUnusable(f"{path} is not a folder; name another one with -o")


@contextmanager
def locked_results(path: Path, *, resume: bool) -> Iterator[Results]:
    """Creates the folder of results, or opens an existing one; no other process may have it open.

    Raises ResultsUnusable if it has other files, is open elsewhere, or cannot be written.
    """
    from filelock import FileLock, Timeout

    require_folder(path)
    has_files, has_plan = path.exists() and any(path.iterdir()), (path / PLAN).exists()
    if has_files and not resume:
        raise ResultsUnusable(
            f"{path} has results already; add --resume to continue with them, or name another "
            "folder with -o"
            if has_plan
            else f"{path} exists and has no results of an experiment; name another folder with -o"
        )
    if has_files and not has_plan:
        raise ResultsUnusable(f"{path} has no {PLAN}, so there is nothing to resume")
    try:
        path.mkdir(parents=True, exist_ok=True)
        held = FileLock(path / _LOCK).acquire(timeout=0)
    except Timeout:
        raise ResultsUnusable(
            f"another traceql experiment run is writing {path}; wait for it"
        ) from None
    except OSError as error:
        raise ResultsUnusable(
            f"cannot write {path}: {error.strerror or error}; name another folder with -o"
        ) from None
    with held:
        yield Results(path.resolve())


_TAIL_LINES = 30
_OWN = ("point", "repeat", "order", "server", "seconds", "log_tail")


def write_repeat(
    folder: Path, facts: dict[str, Any], reason: str | None, server_log: Path | None
) -> None:
    """Marks a repeat complete, or failed for a reason, with the ends of the logs.

    What a capture wrote in its run.json stays.
    """
    if reason is not None:
        logs = {"bench": folder / LOG, "server": server_log}
        facts["log_tail"] = {
            name: log_tail(log).splitlines()[-_TAIL_LINES:] if log else []
            for name, log in logs.items()
        }
    status = "complete" if reason is None else "failed"
    captured: dict[str, Any] = {}  # what a capture has written there; nothing for a benchmark
    with suppress(OSError, ValueError):
        captured = json.loads((folder / RUN).read_text())
    experiment = {name: facts[name] for name in _OWN if name in facts}
    head = {"schema_version": 1, "kind": "vllm-bench", "experiment": experiment}
    rest = {name: value for name, value in facts.items() if name not in _OWN}
    write_json(folder / "config.json", facts["point"])
    write_json(folder / "environment.json", {k: v for k, v in rest.items() if k != "gpus"})
    write_json(folder / "gpus.json", rest["gpus"])
    write_json(folder / RUN, head | rest | captured | {"status": status, "reason": reason})


_NS = 1e9
_DETAILS = (
    "input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors",
)  # fmt: skip


def read_bench(file: Path) -> dict[str, Any]:
    """The JSON of vllm bench; raises PointFailed if there is none, or requests failed."""
    try:
        report: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        raise PointFailed("vllm bench wrote no result") from None
    if failed := report.get("failed"):
        first = next((one for one in report.get("errors", []) if one), "no message")
        first = " ".join(str(first).split())[:300]
        raise PointFailed(f"{failed} of {report.get('num_prompts', '?')} requests failed: {first}")
    return report


def write_serve_results(report: Mapping[str, Any], folder: Path, *, outputs: bool) -> None:
    """Writes metrics.json, summary.csv and, if wanted, outputs.jsonl."""
    requests = list(_requests(report))
    measured = {
        "begin_unix_ns": min((one["sent_unix_ns"] for one in requests), default=None),
        "end_unix_ns": max((one["last_token_unix_ns"] for one in requests), default=None),
        "requests": requests,
        "summary": summary(requests, round(report["duration"] * _NS))
        | {
            "output_tokens": report["total_output_tokens"],
            "output_tokens_per_s": report["output_throughput"],
        },
    }
    document = {"schema_version": 1, "unit": "ns", "passes": {"unprofiled": measured}}
    write_json(folder / "metrics.json", document)
    write_summary({k: v for k, v in report.items() if k not in _DETAILS}, folder)
    if outputs:
        lines = [
            json.dumps({"request_id": one["request_id"], "text": text}) + "\n"
            for one, text in zip(requests, report.get("generated_texts", []), strict=False)
        ]
        (folder / "outputs.jsonl").write_text("".join(lines))


def write_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Writes summary.csv: a row for each number, named as vLLM names it."""
    with (folder / "summary.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "value"])
        rows.writerows(
            sorted((k, v) for k, v in summary.items() if isinstance(v, int | float | str))
        )


def _requests(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The requests as in metrics.json; vLLM's clock is that of time.perf_counter."""
    offset_ns = time.time_ns() - time.perf_counter_ns()
    for number, (prompt, output, ttft, itl, start) in enumerate(
        zip(*(report[name] for name in _DETAILS[:5]), strict=True)
    ):
        sent, first = round(start * _NS) + offset_ns, round(ttft * _NS)
        gaps = [round(one * _NS) for one in itl]
        yield {
            "request_id": f"request-{number}",
            "sent_unix_ns": sent,
            "first_token_unix_ns": sent + first,
            "last_token_unix_ns": sent + first + sum(gaps),
            "finished": True,
            "finish_reason": "length",
            "prompt_tokens": prompt,
            "output_tokens": output,
            "ttft": first,
            "tpot": round(sum(gaps) / (output - 1)) if output > 1 else None,
            "e2e": first + sum(gaps),
            "itl": gaps,
        }
