"""Checks the English that users read; `make lint` runs it.

Two passes: proselint with the settings in `docs/prose/proselint.json`, and the phrases listed in
`docs/prose/phrases.csv` with what to write instead. The texts are the documents, the heads of SQL
files, the help of every command, and the sentences in Python code, such as messages.

    python docs/lint_prose.py [FILE...]
"""

import ast
import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proselint.checks import __register__
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parents[1]
_PROSE = Path(__file__).with_name("prose")
_CODE = re.compile(
    r"^(```|    ```).*?^\s*```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)|^    .*?$", re.M | re.S
)
_SQL = re.compile(r"\b(SELECT|FROM|WHERE|CREATE|INSERT|ATTACH|UPDATE)\b|[{};]\s*$|^\s*<|^%|\\n")


class Problem(NamedTuple):
    """One place to rewrite: file, line (from 1), and what is wrong there."""

    file: Path
    line: int
    message: str


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The prose in a file, with the lines where it begins; code is blanked."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), source)
    elif path.suffix == ".sql":
        head = "\n".join(
            line.removeprefix("--").strip() if line.startswith("--") else ""
            for line in source.splitlines()
        )
        yield 1, re.sub(r"^@\S+ +\S+ +\S+|^@.*$", "", head, flags=re.M)
    else:
        yield from _sentences(ast.parse(source))


def _sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings of four words and more, without docstrings of functions that are not commands."""
    commands = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and not getattr(node, "decorator_list", ())
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in commands
        ):
            text = node.value
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= 4 and not _SQL.search(text):
                yield node.lineno, text


def phrases() -> list[tuple[re.Pattern[str], str]]:
    """What not to write, and what to write instead."""
    with (_PROSE / "phrases.csv").open(encoding="utf-8", newline="") as file:
        return [
            (re.compile(rf"\b(?:{row['pattern']})\b", re.I), row["instead"])
            for row in csv.DictReader(file)
        ]


def problems(
    path: Path, listed: list[tuple[re.Pattern[str], str]], config: dict[str, Any]
) -> Iterator[Problem]:
    """Everything to rewrite in a file."""
    for line, text in texts(path):
        for pattern, instead in listed:
            for found in pattern.finditer(text):
                place = line + text.count("\n", 0, found.start())
                yield Problem(path, place, f"'{found[0]}': write {instead}")
        for one in LintFile(source=str(path), content=text).lint(config):
            yield Problem(path, line + one.pos[0] - 2, one.check_result.message)


def files() -> list[Path]:
    """Every file of the project with sentences for users."""
    patterns = (
        "*.md",
        "docs/*.md",
        "queries/**/*.sql",
        "traceql/**/*.sql",
        "traceql/**/*.py",
        "capture/**/*.py",
    )
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def main() -> int:
    """Prints a line for each problem."""
    CheckRegistry().register_many(__register__)
    config = json.loads((_PROSE / "proselint.json").read_text())
    listed = phrases()
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or files()
    found = [problem for path in chosen for problem in problems(path, listed, config)]
    for file, line, message in found:
        print(f"{file.relative_to(ROOT)}:{line}: {message}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
