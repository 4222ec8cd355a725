"""The options that describe a workload, which several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from capture.workload import DEFAULT_MIX, MIXES

((_PROMPT_TOKENS, _OUTPUT_TOKENS),) = DEFAULT_MIX.shapes
_OPTIONS = (
    click.option(
        "--mix",
        type=click.Choice(list(MIXES)),
        help=f"A named workload.  [default: {DEFAULT_MIX.prompts} requests of {_PROMPT_TOKENS} "
        f"prompt and {_OUTPUT_TOKENS} output tokens]",
    ),
    click.option("--prompts", type=click.IntRange(1), help="Number of requests."),
    click.option("--prompt-tokens", type=click.IntRange(1), help="Tokens in each prompt."),
    click.option(
        "--output-tokens", type=click.IntRange(1), help="Tokens generated for each prompt."
    ),
    click.option("--concurrency", type=click.IntRange(1), help="Requests in flight."),
    click.option("--seed", default=0, show_default=True, help="Seed of lengths and token ids."),
    click.option(
        "--prompts-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A file with one prompt per line: text, or a JSON array of token ids.",
    ),
)


def workload_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds these options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
