"""Standard output that may be full, closed, or piped into a program that has ended."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

_IN, _OUT, _ERROR = range(3)


class _OutputFailed(OSError):
    """Standard output cannot be written, as opposed to any file."""


@contextmanager
def checked_output(status: int = 1) -> Iterator[None]:
    """Flushes stdout after the block; what cannot be written ends the program with this status.

    The reason is one line on stderr. There is none if the program that reads our output has ended:
    that is no error of ours.
    """
    is_ours = sys.stdout is sys.__stdout__
    _open_what_is_closed()
    if is_ours:
        sys.stdout = _checked(sys.stdout)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_the_rest()
        sys.exit(status)
    except _OutputFailed as error:
        _discard_the_rest()
        click.echo(f"traceql: cannot write the output: {error.strerror}", err=True)
        sys.exit(status)


def _open_what_is_closed() -> None:
    """A closed stdin is empty, a closed stderr takes everything, a closed stdout nothing.

    A file that is opened later must not become one of them.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(_nowhere(_IN, os.O_RDONLY), closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(_nowhere(_OUT, os.O_RDONLY), "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_nowhere(_ERROR, os.O_WRONLY), "w", closefd=False)


def _nowhere(number: int, mode: int) -> int:
    opened = os.open(os.devnull, mode)
    return opened if opened == number else os.dup2(opened, number)


def _checked(stdout: Any) -> io.TextIOWrapper:
    """The same stream, whose errors can be told from those of files."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(_OUT, "w", closefd=False)),
        encoding=stdout.encoding,
        errors=stdout.errors,
        line_buffering=stdout.line_buffering,
    )


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _OutputFailed(error.errno, error.strerror) from None


def _discard_the_rest() -> None:
    """The interpreter, when it ends, writes what is left of the output to nowhere."""
    if isinstance(getattr(sys.stdout.buffer, "raw", None), _Output):
        _nowhere(_OUT, os.O_WRONLY)
