"""`traceql capture`: each command calls one function of the library and prints its result."""

import importlib
from typing import Any

import click

from capture.cli.console import told

_COMMANDS = {
    "run": "Start vLLM, run a workload and record it.",
    "attach": "Record a running vLLM server for some seconds.",
}


class _Commands(click.Group):
    """Imports a command on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"capture.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        with told(ctx):
            return super().invoke(ctx)


@click.command("capture", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Record vLLM with torch.profiler into a run directory.

    A run directory has the traces of all ranks and what is needed to interpret them: the
    configuration, the workload, latencies and GPU telemetry. Load it with traceql load.

    To record any other PyTorch program, use `with capture.profile("runs/name"):` in Python.
    """
