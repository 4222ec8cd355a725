"""`traceql capture`: each command calls the library and shows what it returns."""

import importlib
from typing import Any

import click

from capture.errors import CaptureError

_COMMANDS = {
    "run": "Run vLLM with a workload of your choice, and record it.",
    "attach": "Record a running vllm serve for some seconds.",
}
_INTERRUPTED = 130


class _Commands(click.Group):
    """Imports a command when it is called; a CaptureError becomes one line and exit status 1."""

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
            _tell(error)
            ctx.exit(1)
        except ExceptionGroup as group:
            known, other = group.split(CaptureError)
            if known is None or other is not None:
                raise
            _tell(_first(known))
            ctx.exit(1)
        except ModuleNotFoundError as error:
            click.echo(
                f"traceql: {error.name} is not installed; pip install 'traceql[capture]'", err=True
            )
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("traceql: interrupted; nothing is left running", err=True)
            ctx.exit(_INTERRUPTED)


def _tell(error: BaseException) -> None:
    click.echo(f"traceql: {' '.join(str(error).split())}", err=True)


def _first(error: BaseException) -> BaseException:
    """Of requests that failed together, one."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@click.command("capture", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Record vLLM under torch.profiler into a run directory that explains itself.

    For any other PyTorch program use `with capture.profile("runs/name"):` in Python.
    """
