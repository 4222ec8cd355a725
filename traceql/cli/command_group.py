"""A group of commands that imports a command only when it is called."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True)
class Subcommand:
    """The module that has it as `command`, what it does in one line, and its group in `--help`."""

    module: str
    summary: str
    group: str = "Commands"


class CommandGroup(click.Group):
    """So that `--help` waits for nothing, and commands may need what others lack."""

    def __init__(self, *args: Any, subcommands: Mapping[str, Subcommand], **more: Any) -> None:
        super().__init__(*args, **more)
        self._subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._subcommands)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self._subcommands:
            return None
        command: click.Command = importlib.import_module(self._subcommands[name].module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._subcommands))
        for group in dict.fromkeys(one.group for one in self._subcommands.values()):
            with formatter.section(group):
                formatter.write_dl(
                    (name.ljust(width), one.summary)
                    for name, one in self._subcommands.items()
                    if one.group == group
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._subcommands and not args[0].startswith("-"):
            from traceql.util.suggestions import suggestion

            hint = suggestion(args[0], self._subcommands) or f"see {ctx.command_path} --help"
            ctx.fail(f"there is no command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)
