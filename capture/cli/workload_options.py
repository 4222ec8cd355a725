"""The options that say what is asked of the engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from capture.workload import MIXES

_OPTIONS = (
    click.option("--mix", type=click.Choice(list(MIXES)), help="A named workload, fixed seed."),
    click.option("--prompts", type=click.IntRange(1), help="Requests."),
    click.option("--prompt-tokens", type=click.IntRange(1), help="Tokens in each prompt."),
    click.option("--output-tokens", type=click.IntRange(1), help="Tokens generated for each."),
    click.option("--concurrency", type=click.IntRange(1), help="Requests in flight at once."),
    click.option("--seed", default=0, show_default=True, help="Of lengths and token ids."),
    click.option(
        "--prompts-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="One prompt a line: text, or a JSON array of token ids.",
    ),
)


def workload_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
