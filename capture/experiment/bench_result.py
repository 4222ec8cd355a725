"""What vllm bench said of a point, in the forms of a run directory."""

import csv
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from capture.errors import PointFailed
from capture.files import write_json
from capture.metrics import distribution

_NS = 1e9
_DETAILS = (
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "start_times",
    "generated_texts",
    "errors",
)


def read_bench(file: Path) -> dict[str, Any]:
    """The JSON of vllm bench.

    Raises:
        PointFailed: there is none, or requests failed.
    """
    try:
        said: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        raise PointFailed("vllm bench wrote no result") from None
    if failed := said.get("failed"):
        first = next((one for one in said.get("errors", []) if one), "no message")
        first = " ".join(str(first).split())[:300]
        raise PointFailed(f"{failed} of {said.get('num_prompts', '?')} requests failed: {first}")
    return said


def write_serve_results(said: Mapping[str, Any], folder: Path, *, outputs: bool) -> None:
    """Writes metrics.json, summary.csv and, if wanted, outputs.jsonl."""
    requests = list(_requests(said))
    summary = {name: value for name, value in said.items() if name not in _DETAILS}
    measured = {
        "begin_unix_ns": min((one["sent_unix_ns"] for one in requests), default=None),
        "end_unix_ns": max((one["last_token_unix_ns"] for one in requests), default=None),
        "requests": requests,
        "summary": {
            "requests": len(requests),
            "finished": len(requests),
            "elapsed": round(said["duration"] * _NS),
            "output_tokens": said["total_output_tokens"],
            "output_tokens_per_s": said["output_throughput"],
        }
        | {name: distribution(_values(requests, name)) for name in ("ttft", "tpot", "itl", "e2e")},
    }
    document = {"schema_version": 1, "unit": "ns", "passes": {"unprofiled": measured}}
    write_json(folder / "metrics.json", document)
    write_summary(summary, folder)
    if outputs:
        lines = [
            json.dumps({"request_id": one["request_id"], "text": text}) + "\n"
            for one, text in zip(requests, said.get("generated_texts", []), strict=False)
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


def _requests(said: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The requests as in metrics.json; vLLM's clock is that of time.perf_counter."""
    offset_ns = time.time_ns() - time.perf_counter_ns()
    for number, (prompt, output, ttft, itl, start) in enumerate(
        zip(*(said[name] for name in _DETAILS[:5]), strict=True)
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


def _values(requests: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    if name == "itl":
        return [gap for one in requests for gap in one["itl"]]
    return [one[name] for one in requests if one[name] is not None]
