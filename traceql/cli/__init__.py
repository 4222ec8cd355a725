"""The command line: each command calls the library and prints what it returns."""

import errno
import gc
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

import click

from traceql.cli.command_group import CommandGroup, Subcommand
from traceql.cli.progress import first_use
from traceql.cli.streams import checked_output
from traceql.database.notices import excerpts_reported, first_uses_reported
from traceql.errors import TraceqlError
from traceql.util.printable import one_line
from traceql.util.version import __version__

_COMMANDS = {
    "Look": {
        "load": "Load traces, folders of ranks or run directories into one file.",
        "info": "Show what ran, what costs most, and whether the checks hold.",
        "run": "Run a query.",
        "sql": "Run a read-only SQL statement.",
        "queries": "List the queries, or describe one.",
        "report": "Write a self-contained HTML report on where the time went.",
        "ui": "Open a run in Perfetto, or two runs on one time axis.",
    },
    "Compare": {
        "diff": "Compare two runs, or repeats of each, and test what changed.",
        "gate": "Decide in CI whether new runs are slower: exit status 0, 1 or 3.",
        "history": "Chart many runs over time, and mark when they became slower.",
        "baseline": "Store the numbers of runs in a small file, to gate against.",
    },
    "Record": {
        "capture": "Record vLLM under torch.profiler into a run directory.",
        "experiment": "Run a plan of measurements on vLLM, or measure GPU limits.",
    },
    "Plan": {
        "advise": "Choose a layout for a model, or check the set-up of a run.",
    },
    "Many runs": {
        "lake": "Keep many runs in one folder, and query all of them at once.",
    },
    "More": {
        "demo": "Load the bundled four-GPU run and show where its time went.",
        "check": "Check the layers and sums of a database: exit status 0 or 1.",
        "cut": "Cut a part of a run out of a database, into a smaller database.",
        "export": "Export a database to another format.",
        "mcp": "Serve findings, queries and SQL to an AI assistant (MCP).",
    },
}

_SUBCOMMANDS = {
    name: Subcommand("capture.cli" if name == "capture" else f"traceql.cli.{name}", summary, group)
    for group, commands in _COMMANDS.items()
    for name, summary in commands.items()
}

# Errors end a command with 1; where 1 is an answer of the command, with this.
_STATUS_OF_ERRORS = {"gate": 2}

# Signals that end a command: kill, and the end of the terminal or the SSH connection.
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

# Commands that start other programs, which get the environment as the user has set it. So does
# the option --ui.
_STARTS_PROGRAMS = ("capture", "experiment", "ui")

# DuckDB replaces the exception of a signal handler by a RuntimeError with this message.
_QUERY_STOPPED = "Query interrupted"


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


class _Interrupted(Exception):
    """Ctrl-C; click would turn a KeyboardInterrupt into exit status 1."""


@click.command(
    cls=_Commands,
    subcommands=_SUBCOMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="traceql")
def cli() -> None:
    """Where did my milliseconds go? Query recordings of LLM inference in SQL.

    Shell completion: eval "$(_TRACEQL_COMPLETE=bash_source traceql)" (or zsh_source, fish_source).
    """


def main() -> Any:
    """Runs the command line; prints a TraceqlError as one line on stderr, with exit status 1.

    Where 1 is an answer of the command, errors have another status (_STATUS_OF_ERRORS).
    """
    status = _STATUS_OF_ERRORS.get(_command_name(), 1)
    stopped_by = signal.SIGINT

    def stop(number: int, _frame: object) -> None:
        """Exits by an exception, so that unfinished files are removed."""
        nonlocal stopped_by
        stopped_by = signal.Signals(number)
        sys.exit(128 + number)

    # Commands make many objects that stay, and few reference cycles.
    gc.set_threshold(20_000, 20, 20)
    if _command_name() not in _STARTS_PROGRAMS and "--ui" not in sys.argv:
        # numpy would start a thread for each processor, only to multiply matrices.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    try:
        with checked_output(status):
            return cli(standalone_mode=True)
    except SystemExit:
        if stopped_by != signal.SIGINT:
            sys.exit(128 + stopped_by)  # libraries such as Ray make another status of it
        raise
    except (TraceqlError, OSError, MemoryError) as error:
        click.echo(f"traceql: {one_line(_told(error))}", err=True)
        sys.exit(status)
    except (_Interrupted, RuntimeError) as error:
        if isinstance(error, RuntimeError) and str(error) != _QUERY_STOPPED:
            _fail(error, status)
        if stopped_by == signal.SIGINT:
            click.echo("traceql: interrupted", err=True)
        sys.exit(128 + stopped_by)
    except Exception as error:
        _fail(error, status)


def _command_name() -> str:
    """The command that was called; only commands have options with values."""
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "")


def _fail(error: Exception, status: int) -> NoReturn:
    """Ends the program as Python does after an error that nobody expected, with this status."""
    if status == 1:
        raise error
    traceback.print_exception(error)
    sys.exit(status)


def _told(error: Exception) -> str:
    """What is wrong and, if the system refused something, what can be done."""
    if isinstance(error, MemoryError):
        return "not enough memory; use a machine with more, or load fewer ranks"
    if not isinstance(error, OSError):
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    advice = "; allow more with ulimit -n 1024" if error.errno == errno.EMFILE else ""
    return f"{place}{error.strerror or error}{advice}"
