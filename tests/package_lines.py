"""Counts the lines of Python and SQL in each package; fails above `[tool.traceql.lines]`.

`make lint` runs it. Raise a limit in pyproject.toml only on purpose, in the commit that needs it.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lines(folder: Path) -> int:
    """Lines of all Python and SQL files in a folder."""
    files = [path for suffix in ("*.py", "*.sql") for path in folder.rglob(suffix)]
    return sum(path.read_text(encoding="utf-8").count("\n") for path in files)


def main() -> int:
    """Prints a line for each package with its lines and its limit."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    limits: dict[str, int] = settings["tool"]["traceql"]["lines"]
    exceeded = False
    for package, limit in limits.items():
        found = lines(ROOT / package)
        exceeded |= found > limit
        print(f"{package:24} {found:7,} of {limit:7,}{'  too many' if found > limit else ''}")
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
