"""Puts together what the ranks left behind: traces, iterations, and which rank is what."""

import json
from pathlib import Path
from typing import Any

from capture.errors import EngineFailed


def rank_folder(scratch: Path, rank: int) -> Path:
    return scratch / f"rank{rank}"


def collected_ranks(scratch: Path) -> list[dict[str, Any]]:
    """What each rank said of itself, in order."""
    folders = sorted(scratch.glob("rank*"), key=lambda folder: int(folder.name[4:]))
    return [json.loads((folder / "rank.json").read_text()) for folder in folders]


def collect_traces(folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> None:
    """Moves each rank's trace to `traces/` and notes it in `ranks`; writes steps.jsonl.

    Raises:
        EngineFailed: a rank wrote no trace.
    """
    target = folder / "traces"
    target.mkdir(exist_ok=True)
    with (folder / "steps.jsonl").open("w") as steps:
        for facts in ranks:
            place = rank_folder(scratch, facts["rank"])
            written = sorted(place.glob("*.json.gz"))
            if len(written) != 1:
                raise EngineFailed(
                    f"rank {facts['rank']} wrote {len(written)} traces in place of one; "
                    f"{folder / 'log.txt'} has the profiler's messages"
                )
            name = f"rank{facts['rank']}.pt.trace.json.gz"
            written[0].replace(target / name)
            facts["trace"] = f"traces/{name}"
            _write_steps(steps, facts["rank"], place / "profiled.json")


def _write_steps(steps: Any, rank: int, recorded: Path) -> None:
    for number, iteration in enumerate(json.loads(recorded.read_text())["iterations"]):
        requests = {_sent_as(name): tokens for name, tokens in iteration["scheduled"].items()}
        row = {
            "rank": rank,
            "number": number,
            "begin_unix_ns": iteration["begin_unix_ns"],
            "requests": requests,
        }
        steps.write(json.dumps(row) + "\n")


def _sent_as(name: str) -> str:
    """The request's own id: vLLM and the passes append to it after a slash."""
    return name.split("/", 1)[0]
