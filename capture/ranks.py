"""Collects what the ranks wrote: their steps, and the place of each rank."""

import json
import re
from pathlib import Path
from typing import Any

_OF_WORKLOAD = re.compile(r"(?:cmpl-)?([^/]+)/")


def rank_folder(scratch: Path, rank: int) -> Path:
    return scratch / f"rank{rank}"


def collected_ranks(scratch: Path) -> list[dict[str, Any]]:
    """What each rank wrote about itself, in the order of ranks."""
    folders = sorted(scratch.glob("rank*"), key=lambda folder: int(folder.name[4:]))
    return [json.loads((folder / "rank.json").read_text()) for folder in folders]


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
