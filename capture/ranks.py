"""Collects the files that the ranks wrote: traces, steps and the place of each rank."""

import json
import re
from pathlib import Path
from typing import Any

from capture.errors import EngineFailed

_OF_WORKLOAD = re.compile(r"(?:cmpl-)?([^/]+)/")


def rank_folder(scratch: Path, rank: int) -> Path:
    return scratch / f"rank{rank}"


def collected_ranks(scratch: Path) -> list[dict[str, Any]]:
    """What each rank wrote about itself, in the order of ranks."""
    folders = sorted(scratch.glob("rank*"), key=lambda folder: int(folder.name[4:]))
    return [json.loads((folder / "rank.json").read_text()) for folder in folders]


def collect_traces(folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> None:
    """Moves each rank's trace to `traces/`, and adds its path to `ranks`.

    Raises:
        EngineFailed: a rank did not write exactly one trace.
    """
    target = folder / "traces"
    target.mkdir(exist_ok=True)
    for facts in ranks:
        written = sorted(rank_folder(scratch, facts["rank"]).glob("*.json.gz"))
        if len(written) != 1:
            raise EngineFailed(
                f"rank {facts['rank']} wrote {len(written)} traces instead of one; "
                f"{folder / 'log.txt'} has the profiler's messages"
            )
        name = f"rank{facts['rank']}.pt.trace.json.gz"
        written[0].replace(target / name)
        facts["trace"] = f"traces/{name}"


def write_steps(folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> None:
    """Writes steps.jsonl from the notes of the ranks about the profiled pass."""
    with (folder / "steps.jsonl").open("w") as steps:
        for facts in ranks:
            _write_rank(steps, facts["rank"], notes_of_steps(scratch, facts["rank"]))


def notes_of_steps(scratch: Path, rank: int) -> Path:
    """The file in which a rank notes its profiled pass."""
    return rank_folder(scratch, rank) / "profiled.json"


def _write_rank(steps: Any, rank: int, notes: Path) -> None:
    for number, iteration in enumerate(json.loads(notes.read_text())["iterations"]):
        row = {
            "rank": rank,
            "number": number,
            "begin_unix_ns": iteration["begin_unix_ns"],
            "requests": _by_request(iteration["scheduled"]),
            "computed": _by_request(iteration["computed"]),
        }
        steps.write(json.dumps(row) + "\n")


def _by_request(tokens: dict[str, int]) -> dict[str, int]:
    return {_request_id(name): count for name, count in tokens.items()}


def _request_id(name: str) -> str:
    """The id of a request in the workload.

    Each pass, and vLLM, append a suffix after a slash; a server adds a prefix too.
    """
    found = _OF_WORKLOAD.match(name)
    return found[1] if found else name
