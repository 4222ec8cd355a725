"""What capture refuses becomes one line on stderr and an exit status."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from capture.errors import CaptureError

_INTERRUPTED = 130


@contextmanager
def told(ctx: click.Context) -> Iterator[None]:
    """Ends the command with status 1 after a CaptureError of the block, with 130 after Ctrl-C."""
    try:
        yield
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


class CaptureCommand(click.Command):
    """A command outside of `traceql capture` that ends as its commands do."""

    def invoke(self, ctx: click.Context) -> Any:
        with told(ctx):
            return super().invoke(ctx)
