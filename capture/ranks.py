"""Collects the files that the ranks wrote: traces, steps and the place of each rank."""

import json
from pathlib import Path
from typing import Any

from capture.errors import EngineFailed


def rank_folder(scratch: Path, rank: int) -> Path:
    return scratch / f"rank{rank}"


def collected_ranks(scratch: Path) -> list[dict[str, Any]]:
    """What each rank wrote about itself, in the order of ranks."""
    folders = sorted(scratch.glob("rank*"), key=lambda folder: int(folder.name[4:]))
    return [json.loads((folder / "rank.json").read_text()) for folder in folders]


def collect_traces(folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> None:
    """Moves each rank's trace to `traces/`, adds its path to `ranks` and writes steps.jsonl.

    Raises:
        EngineFailed: a rank did not write exactly one trace.
    """
    target = folder / "traces"
    target.mkdir(exist_ok=True)
    with (folder / "steps.jsonl").open("w") as steps:
        for facts in ranks:
            place = rank_folder(scratch, facts["rank"])
            written = sorted(place.glob("*.json.gz"))
            if len(written) != 1:
                raise EngineFailed(
                    f"rank {facts['rank']} wrote {len(written)} traces instead of one; "
                    f"{folder / 'log.txt'} has the profiler's messages"
                )
            name = f"rank{facts['rank']}.pt.trace.json.gz"
            written[0].replace(target / name)
            facts["trace"] = f"traces/{name}"
            _write_steps(steps, facts["rank"], place / "profiled.json")


def _write_steps(steps: Any, rank: int, notes: Path) -> None:
    for number, iteration in enumerate(json.loads(notes.read_text())["iterations"]):
        requests = {_request_id(name): tokens for name, tokens in iteration["scheduled"].items()}
        row = {
            "rank": rank,
            "number": number,
            "begin_unix_ns": iteration["begin_unix_ns"],
            "requests": requests,
        }
        steps.write(json.dumps(row) + "\n")


def _request_id(name: str) -> str:
    """The id of a request in the workload: each pass, and vLLM, append a suffix after a slash."""
    return name.split("/", 1)[0]
