"""The command line: each command calls the library and prints what it returns."""

import errno
import gc
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

import click

from traceql.cli.command_tree import SUBCOMMANDS, CommandGroup
from traceql.cli.streams import checked_output, first_use
from traceql.database.notices import excerpts_reported, first_uses_reported
from traceql.errors import TraceqlError
from traceql.util.resources import __version__
from traceql.util.text import one_line

# The exit status of errors, where 1 is a result of the command.
_ERROR_STATUS = {"gate": 2}

# Signals that end a command: kill, and the end of the terminal or the SSH connection.
_TERMINATION = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

# Commands that start other programs, which inherit the user's environment. So does --ui.
_STARTS_PROGRAMS = ("capture", "experiment", "ui")

# DuckDB replaces the exception of a signal handler by a RuntimeError with this message.
_QUERY_STOPPED = "Query interrupted"


class _Interrupted(Exception):
    """Ctrl-C; click would turn a KeyboardInterrupt into exit status 1."""


class _Commands(CommandGroup):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            with (
                excerpts_reported(lambda line: click.echo(one_line(line), err=True)),
                first_uses_reported(first_use),
            ):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None


@click.command(
    cls=_Commands,
    subcommands=SUBCOMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="traceql")
def cli() -> None:
    """Where did my milliseconds go? Query recordings of LLM inference in SQL.

    Shell completion: eval "$(_TRACEQL_COMPLETE=bash_source traceql)" (or zsh_source, fish_source).
    """


def main() -> Any:
    """Runs the command line; prints a TraceqlError as one line on stderr, with exit status 1.

    Where 1 is a result of the command, errors have another status (_ERROR_STATUS).
    """
    # Only commands have options with values.
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    status = _ERROR_STATUS.get(command, 1)
    stopped_by = signal.SIGINT

    def stop(number: int, _frame: object) -> None:
        """Exits by an exception, so that unfinished files are removed."""
        nonlocal stopped_by
        stopped_by = signal.Signals(number)
        sys.exit(128 + number)

    # Commands make many long-lived objects and few reference cycles.
    gc.set_threshold(20_000, 20, 20)
    if command not in _STARTS_PROGRAMS and "--ui" not in sys.argv:
        # numpy would start a thread on each CPU, which only matrix products need.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for number in _TERMINATION:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    try:
        with checked_output(status):
            return cli(standalone_mode=True)
    except SystemExit:
        if stopped_by != signal.SIGINT:
            sys.exit(128 + stopped_by)  # libraries such as Ray change the status
        raise
    except (TraceqlError, OSError, MemoryError) as error:
        click.echo(f"traceql: {one_line(_format_error(error))}", err=True)
        sys.exit(status)
    except (_Interrupted, RuntimeError) as error:
        if isinstance(error, RuntimeError) and str(error) != _QUERY_STOPPED:
            _exit_unexpected(error, status)
        if stopped_by == signal.SIGINT:
            click.echo("traceql: interrupted", err=True)
        sys.exit(128 + stopped_by)
    except Exception as error:
        _exit_unexpected(error, status)


def _exit_unexpected(error: Exception, status: int) -> NoReturn:
    """Exits with a traceback and this status."""
    if status == 1:
        raise error
    traceback.print_exception(error)
    sys.exit(status)


def _format_error(error: Exception) -> str:
    """What is wrong and, for errors of the system, what to do."""
    if isinstance(error, MemoryError):
        return "not enough memory; use a machine with more, or load fewer ranks"
    if not isinstance(error, OSError):
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    advice = "; allow more with ulimit -n 1024" if error.errno == errno.EMFILE else ""
    return f"{place}{error.strerror or error}{advice}"
