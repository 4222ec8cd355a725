"""The files that say what a repeat of a point was, and whether it is complete."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capture.checkout import checkout
from capture.environment import environment, variables
from capture.experiment.program import LOG
from capture.experiment.results import RUN
from capture.failures import log_tail
from capture.files import write_json

_TAIL_LINES = 30
_OWN = ("point", "repeat", "order", "server", "seconds", "log_tail")


def begun() -> dict[str, Any]:
    """When a repeat began, on which machine."""
    return {
        "start_unix_ns": time.time_ns(),
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": variables(),
        "git": checkout(),
        **environment(),
    }


def write_repeat(folder: Path, facts: Mapping[str, Any]) -> None:
    """Marks a repeat complete; what a capture wrote in its run.json stays."""
    _write(folder, facts, status="complete", reason=None)


def write_failure(
    folder: Path, facts: Mapping[str, Any], reason: str, server_log: Path | None
) -> None:
    """Marks a repeat failed, with the ends of the logs."""
    tails = {"bench": _tail(folder / LOG), "server": _tail(server_log) if server_log else []}
    _write(folder, {**facts, "log_tail": tails}, status="failed", reason=reason)


def _write(folder: Path, facts: Mapping[str, Any], *, status: str, reason: str | None) -> None:
    captured = _captured(folder / RUN)
    experiment = {name: facts[name] for name in _OWN if name in facts}
    head = {"schema_version": 1, "kind": "vllm-bench", "experiment": experiment}
    rest = {name: value for name, value in facts.items() if name not in _OWN}
    write_json(folder / "config.json", facts["point"])
    write_json(folder / "environment.json", {k: v for k, v in rest.items() if k != "gpus"})
    write_json(folder / "gpus.json", rest["gpus"])
    write_json(folder / RUN, head | rest | captured | {"status": status, "reason": reason})


def _captured(file: Path) -> dict[str, Any]:
    """What a capture has written there; nothing for a benchmark."""
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _tail(log: Path) -> list[str]:
    return log_tail(log).splitlines()[-_TAIL_LINES:]
