"""BASE and NEW on the command line of traceql diff and traceql gate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PATH = click.Path(path_type=Path, readable=False)  # what reads it says what is wrong with it

accept_option = click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="A difference of set-up that is wanted and forbids no verdict, such as gpu.name or "
    "parallel; all for every one. The output names them.",
)


def sides_arguments(command: _Command) -> _Command:
    """Adds BASE and NEW, and --base and --new for several repeats of each."""
    for option in (
        click.option(
            "--new", multiple=True, type=_PATH, help="A repeat of NEW; may be given again."
        ),
        click.option(
            "--base", multiple=True, type=_PATH, help="A repeat of BASE; may be given again."
        ),
        click.argument("paths", nargs=-1, type=_PATH, metavar="[BASE] [NEW]"),
    ):
        command = option(command)
    return command


def sides(
    paths: tuple[Path, ...],
    base: tuple[Path, ...],
    new: tuple[Path, ...],
    *,
    baseline: Path | None = None,
    hint: str = "",
) -> tuple[list[Path], list[Path]]:
    """The paths of both sides: an argument names a side that no option names.

    Args:
        baseline: what BASE is if nothing names it.
        hint: what else can be done, said if a side is missing.

    Raises:
        UsageError: a side is missing, or is named twice.
    """
    unnamed = (not base) + (not new)
    named = list(paths)
    if not base and baseline is not None and len(paths) == unnamed - 1:
        named = [baseline, *paths]
    if len(named) != unnamed:
        raise click.UsageError(
            f"name two sides: BASE NEW, or --base A1 --base A2 --new B1 --new B2{hint}"
        )
    return list(base) or [named[0]], list(new) or [named[-1]]
