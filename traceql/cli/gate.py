"""traceql gate"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.console import print_text
from traceql.cli.two_sides import accept_option, sides, sides_arguments
from traceql.errors import TraceqlError
from traceql.runs.gate.criterion import NAME, Config, Criterion, criteria, found_config, read_config
from traceql.runs.gate.reports import as_json, as_junit, as_markdown, as_text, text_lines
from traceql.util.files import whole_file
from traceql.util.printable import printable

if TYPE_CHECKING:
    from traceql.runs.gate.outcome import Gate

_FORMS: dict[str, Callable[["Gate"], str]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
    "markdown": as_markdown,
}
_SUFFIXES = {".txt": "text", ".json": "json", ".xml": "junit", ".md": "markdown"}
_INPUT = click.Path(path_type=Path, readable=False)
_EPILOG = """\b
Exit status:
  0  every criterion shows that there is no regression
  1  a criterion shows a regression
  2  the input or the command line cannot be used; nothing is decided
  3  inconclusive (says how many runs would do), or not comparable
"""


@click.command("gate", epilog=_EPILOG)
@sides_arguments
@click.option(
    "--fail-on",
    multiple=True,
    metavar="CRITERION",
    help='What is a regression: "METRIC > X%", as "decode.step > 2%" or "exposed_comm > 5%"; '
    '"tokens_per_second < -X%". Repeat it for more criteria.',
)
@accept_option
@click.option(
    "--config",
    type=_INPUT,
    help=f"File with criteria.  [default: {NAME} here or above, up to the root of the repository]",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(_FORMS)),
    default="text",
    show_default=True,
    help="Form of the answer on stdout.",
)
@click.option(
    "--write",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer to a file too; the ending says its form: .md, .xml (JUnit), .json or "
    ".txt. Repeat it for more files.",
)
def command(
    paths: tuple[Path, ...],
    base: tuple[Path, ...],
    new: tuple[Path, ...],
    fail_on: tuple[str, ...],
    accept: tuple[str, ...],
    config: Path | None,
    format_: str,
    write: tuple[Path, ...],
) -> None:
    """Decide whether NEW is slower than BASE; made for CI.

    BASE and NEW are repeats of the same workload: folders with a database or a run directory for
    each, or baselines. A verdict needs 4 runs on each side, better 5. If traceql-gate.toml names a
    baseline, BASE can be left out.

    METRIC is one of step, interval, computing, exposed_comm, exposed_wait, idle, idle.host ... or a
    role such as qkv_proj, of all steps or, with prefill., decode. or mixed. before it, of one
    phase; or ttft, tpot, itl, e2e or tokens_per_second.
    """
    for path in write:
        if path.suffix not in _SUFFIXES:
            endings = ", ".join(_SUFFIXES)
            raise click.UsageError(f"{path} has none of the endings {endings}; rename it")
    chosen = read_config(config) if config else found_config(Path.cwd())
    asked = _criteria(fail_on, chosen)
    bases, news = _sides(paths, base, new, chosen.baseline)
    with ExitStack() as files:  # a place that cannot be written is told before the work
        drafts = {path: files.enter_context(whole_file(path)) for path in dict.fromkeys(write)}
        decided = _decided(bases, news, asked, accept or chosen.accept)
        for path, draft in drafts.items():
            draft.write_bytes(_FORMS[_SUFFIXES[path.suffix]](decided).encode())
        _print(decided, format_)
    sys.exit(decided.exit_status)


def _criteria(fail_on: Sequence[str], chosen: Config) -> tuple[Criterion, ...]:
    found = criteria(fail_on or chosen.fail_on)
    if not found:
        where = f"fail_on in {chosen.path}" if chosen.path else f"a {NAME}"
        raise click.UsageError(
            f'there is no criterion; add --fail-on "decode.step > 2%", or {where}'
        )
    return found


def _sides(
    paths: tuple[Path, ...], base: tuple[Path, ...], new: tuple[Path, ...], baseline: Path | None
) -> tuple[list[Path], list[Path]]:
    """The paths of base and new; the file's baseline must be one."""
    from traceql.runs.compare.sides import manifest_of

    hint = f"; BASE may also be the baseline in a {NAME}"
    bases, news = sides(paths, base, new, baseline=baseline, hint=hint)
    if baseline is not None and bases == [baseline]:
        manifest_of(baseline)
    return bases, news


def _decided(
    bases: list[Path], news: list[Path], asked: Sequence[Criterion], accept: Sequence[str]
) -> "Gate":
    from traceql.runs.compare.sides import groups_of
    from traceql.runs.gate.decision import gate

    def say(text: str) -> None:
        click.echo(printable(text), err=True)

    base, new = groups_of((bases, news), say=say)
    return gate(base, new, asked, accept=accept)


def _print(decided: "Gate", format_: str) -> None:
    try:
        if format_ == "text":
            for line in text_lines(decided):
                print_text(line.text, before=line.before, bold=line.is_bold)
        else:
            sys.stdout.write(_FORMS[format_](decided))
        sys.stdout.flush()
    except BrokenPipeError:  # click would end with 1, which means a regression
        raise TraceqlError("the program that reads the output has ended") from None
