"""Standard output that is full, closed, or piped into a program that has ended."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

_STDIN, _STDOUT, _STDERR = range(3)


class _OutputFailed(OSError):
    """A failed write to standard output, unlike one to a file."""


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _OutputFailed(error.errno, error.strerror) from None


@contextmanager
def checked_output(status: int = 1) -> Iterator[None]:
    """Flushes stdout after the block; exits with this status if stdout cannot be written.

    Prints the reason in one line on stderr, but not if the program that reads our output has ended.
    """
    is_ours = sys.stdout is sys.__stdout__
    _reopen_closed_streams()
    if is_ours:
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(_STDOUT, "w", closefd=False)),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=bool(sys.stdout.line_buffering),
        )
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        sys.exit(status)
    except _OutputFailed as error:
        _discard_output()
        click.echo(f"traceql: cannot write the output: {error.strerror}", err=True)
        sys.exit(status)


def _reopen_closed_streams() -> None:
    """Replaces closed streams: stdin is empty, stderr is discarded, writes to stdout fail.

    Otherwise a file that is opened later would get their number.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(_open_devnull(_STDIN, os.O_RDONLY), closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(_open_devnull(_STDOUT, os.O_RDONLY), "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_open_devnull(_STDERR, os.O_WRONLY), "w", closefd=False)


def _open_devnull(number: int, mode: int) -> int:
    opened = os.open(os.devnull, mode)
    return opened if opened == number else os.dup2(opened, number)


def _discard_output() -> None:
    """Sends to the null device what the interpreter flushes when it exits."""
    if isinstance(getattr(sys.stdout.buffer, "raw", None), _Output):
        _open_devnull(_STDOUT, os.O_WRONLY)
