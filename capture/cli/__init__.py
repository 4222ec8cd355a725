"""`traceql capture`: each command calls one function of the library and prints its result."""

import importlib
from typing import Any

import click

from capture.errors import CaptureError

_COMMANDS = {
    "run": "Start vLLM, run a workload and record it.",
    "attach": "Record a running vLLM server for some seconds.",
    "peaks": "Measure what the GPUs can reach: memory, products, communication.",
}
_INTERRUPTED = 130


class _Commands(click.Group):
    """Imports a command on first use; a CaptureError becomes one line and exit status 1."""

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
        try:
            return super().invoke(ctx)
        except CaptureError as error:
            _print_error(error)
            ctx.exit(1)
        except ExceptionGroup as group:
            known, other = group.split(CaptureError)
            if known is None or other is not None:
                raise
            _print_error(_first(known))
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("traceql: interrupted; everything that it started has ended", err=True)
            ctx.exit(_INTERRUPTED)


def _print_error(error: BaseException) -> None:
    click.echo(f"traceql: {' '.join(str(error).split())}", err=True)


def _first(error: BaseException) -> BaseException:
    """The first of several requests that failed together."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@click.command("capture", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Record vLLM with torch.profiler into a run directory.

    A run directory has the traces of all ranks and what is needed to interpret them: the
    configuration, the workload, latencies and GPU telemetry. Load it with traceql load.

    To record any other PyTorch program, use `with capture.profile("runs/name"):` in Python.
    """
