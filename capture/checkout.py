"""Says which commit the folder has in which a recording was started."""

import os
import subprocess
from pathlib import Path
from typing import Any

_LONGEST_S = 10  # that `git status` may take, in a checkout of any size
_OF_THIS_FOLDER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # not of a hook that calls us


def checkout(folder: Path | None = None) -> dict[str, Any] | None:
    """Commit, branch and whether tracked files differ from the commit, for run.json.

    None outside a git checkout, before the first commit, without git, or if git does not answer.

    Args:
        folder: a folder inside the checkout; by default the working folder.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _OF_THIS_FOLDER}
    try:
        done = subprocess.run(
            ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            cwd=folder,
            env=variables | {"GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = heads.get("branch.oid", "("), heads.get("branch.head", "(")
    if commit.startswith("("):  # (initial)
        return None
    return {
        "commit": commit,
        "branch": None if branch.startswith("(") else branch,  # (detached)
        "dirty": any(not line.startswith("#") for line in lines),
    }
