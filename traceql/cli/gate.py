"""traceql gate and baseline: fail CI on a regression, against saved metrics."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean as mean
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.options import (
    INPUT,
    PATH,
    OutputFormat,
    accept_option,
    base_and_new,
    sides_arguments,
)
from traceql.cli.output import print_status, print_text, write_dicts
from traceql.errors import TraceqlError
from traceql.runs.gate.criterion import NAME, criteria, found_config, read_config
from traceql.runs.gate.reports import as_json, as_junit, as_markdown, as_text, text_lines
from traceql.util.files import atomic_write
from traceql.util.text import format_count, one_line, shortened

if TYPE_CHECKING:
    from traceql.runs.compare.sides import RunProfile
    from traceql.runs.gate.decision import Gate

_FORMATS: dict[str, Callable[["Gate"], str]] = {
    "text": as_text, "json": as_json, "junit": as_junit, "markdown": as_markdown,
}  # fmt: skip
_SUFFIXES = {".txt": "text", ".json": "json", ".xml": "junit", ".md": "markdown"}
_EPILOG = """\b
Exit status:
  0  every criterion shows that there is no regression
  1  a criterion shows a regression
  2  wrong input or wrong usage; no verdict
  3  inconclusive (the number of runs needed is printed), or not comparable
"""
_FILE_SUFFIXES = {".duckdb", ".db", ".json", ".gz", ".parquet", ".pftrace", ".perfetto-trace"}
_SETTINGS = ("config.", "resolved.")  # many facts, of which only differences matter
_MAX_LETTERS = 200


@click.command(epilog=_EPILOG)
@sides_arguments
@click.option(
    "--fail-on",
    multiple=True,
    metavar="CRITERION",
    help='A regression: "METRIC > X%", such as "decode.step > 2%" or "exposed_comm > 5%"; '
    '"tokens_per_second < -X%". Repeatable.',
)
@accept_option
@click.option(
    "--config",
    type=INPUT,
    help=f"File of criteria.  [default: {NAME} here or above, up to the root of the repository]",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(_FORMATS)),
    default="text",
    help="Output format, written to stdout.",
)
@click.option(
    "--write",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Also write the result to a file, in the format of its suffix: .md, .xml (JUnit), .json "
    "or .txt. Repeatable.",
)
def gate(
    paths: tuple[Path, ...],
    base: tuple[Path, ...],
    new: tuple[Path, ...],
    fail_on: tuple[str, ...],
    accept: tuple[str, ...],
    config: Path | None,
    format_: str,
    write: tuple[Path, ...],
) -> None:
    """Fail if NEW is slower than BASE, for CI.

    BASE and NEW are repeats of the same workload: folders with a database or a run directory for
    each, or baselines. A verdict needs 4 runs on each side, better 5. If traceql-gate.toml names a
    baseline, BASE can be omitted.

    METRIC is step, interval, computing, exposed_comm, exposed_wait, idle, idle.host ... or a role
    such as qkv_proj, of all steps or, with the prefix prefill., decode. or mixed., of one phase; or
    ttft, tpot, itl, e2e or tokens_per_second.
    """
    for path in write:
        if path.suffix not in _SUFFIXES:
            suffixes = ", ".join(_SUFFIXES)
            raise click.UsageError(f"{path} has none of the suffixes {suffixes}; rename it")
    from traceql.runs.compare.sides import manifest_of
    from traceql.runs.gate.decision import gate as decide

    chosen = read_config(config) if config else found_config(Path.cwd())
    wanted = fail_on or chosen.fail_on
    criteria(wanted)  # fails before the work
    if not wanted:
        where = f"fail_on in {chosen.path}" if chosen.path else f"a {NAME}"
        raise click.UsageError(f'no criterion; add --fail-on "decode.step > 2%", or {where}')
    hint = f"; BASE may also be the baseline in a {NAME}"
    sides = base_and_new(paths, base, new, baseline=chosen.baseline, hint=hint)
    if chosen.baseline is not None and sides[0] == [chosen.baseline]:
        manifest_of(chosen.baseline)
    with ExitStack() as files:  # fails before the work if a file is not writable
        drafts = {path: files.enter_context(atomic_write(path)) for path in dict.fromkeys(write)}
        result = decide(*sides, fail_on=wanted, accept=accept or chosen.accept, say=print_status)
        for path, draft in drafts.items():
            draft.write_bytes(_FORMATS[_SUFFIXES[path.suffix]](result).encode())
        _print(result, format_)
    sys.exit(result.exit_status)


def _print(result: "Gate", format_: str) -> None:
    try:
        if format_ == "text":
            for line in text_lines(result):
                print_text(line.text, before=line.before, bold=line.is_bold)
        else:
            sys.stdout.write(_FORMATS[format_](result))
        sys.stdout.flush()
    except BrokenPipeError:  # click would exit with 1, which means a regression
        raise TraceqlError("the program that reads the output has ended") from None


@click.group()
def baseline() -> None:
    """Save the metrics of runs in a small folder, for gate and diff."""


@baseline.command()
@click.argument("name", type=PATH)
@click.argument("paths", nargs=-1, required=True, type=INPUT, metavar="RUN...")
@click.option("--replace", is_flag=True, help="Replace the baseline of that name.")
def save(name: Path, paths: tuple[Path, ...], replace: bool) -> None:
    """Save runs as a baseline: a small folder that replaces their traces in comparisons.

    RUN is a database, a run directory, a trace, or a folder with several repeats. Five repeats make
    a good baseline, of about 100 kB; a verdict needs four.

    The folder holds medians and sums by phase and size of step, and the set-up without paths of the
    machine. It is small enough for a repository.
    """
    from traceql.runs.compare.sides import require_free, runs_of, save_baseline
    from traceql.runs.compare.verdict import LEAST_RUNS
    from traceql.runs.gate.decision import require_different

    if name.suffix.lower() in _FILE_SUFFIXES:
        raise TraceqlError(f"{name} is the name of a file; a baseline is a folder, name it first")
    require_free(name, replace=replace)
    runs = runs_of(paths, say=print_status)
    require_different(runs)
    save_baseline(runs, name, replace=replace)
    count = format_count(len(runs), "run")
    click.echo(one_line(f"wrote {name}: {count}, {_format_size(name)}"))
    if len(runs) < LEAST_RUNS:
        print_text(f"! {count}: a verdict needs {LEAST_RUNS}, better 5", hanging="  ", err=True)
    if facts := _forbidden_differences(runs):
        warning = f"! these runs are not repeats, so gate rejects them: they differ in {facts}"
        print_text(warning, hanging="  ", err=True)


def _forbidden_differences(runs: Sequence["RunProfile"]) -> str:
    """The differences of set-up between the runs that forbid a comparison."""
    from traceql.runs.compare.setup import Effect, differences

    facts = [
        (side, number, fact["name"], fact["value"])
        for side in ("base", "new")
        for number, run in enumerate(runs)
        for fact in run.profile["fact"].to_pylist()
    ]
    found = [one.title for one in differences(facts) if one.effect is Effect.FORBIDS]
    return ", ".join(dict.fromkeys(found))


@baseline.command()
@click.argument("name", type=PATH)
def show(name: Path) -> None:
    """Show the runs of a baseline, their set-up and their steps."""
    from traceql.runs.compare.sides import manifest_of, runs_of

    manifest = manifest_of(name)
    runs = runs_of([name])
    title = f"{name}: {format_count(len(runs), 'run')}, {_format_size(name)}"
    print_text(one_line(title), hanging="  ", bold=True)
    saved = f"saved {manifest.saved} by traceql {manifest.traceql}"
    print_text(one_line(saved), hanging="  ")
    print_text(one_line(f"runs: {', '.join(manifest.runs)}"), hanging="  ")
    click.echo("")
    values: dict[str, set[str]] = {}
    for fact in (fact for run in runs for fact in run.profile["fact"].to_pylist()):
        values.setdefault(fact["name"], set()).add(fact["value"])
    for title, found in sorted(values.items()):
        if not title.startswith(_SETTINGS):
            value = shortened(" or ".join(sorted(found)), _MAX_LETTERS)
            print_text(one_line(f"{title}: {value}"), hanging="  ")
    if settings := sum(title.startswith(_SETTINGS) for title in values):
        print_text(f"and {settings:,} settings of the model and the engine", hanging="  ")
    _print_strata([run.profile["stratum"].to_pylist() for run in runs])


def _print_strata(runs: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """One row for each stratum: how many runs have it, and how many steps of it."""
    grain = "kv" if all(any(row["grain"] == "kv" for row in run) for run in runs) else "rows"
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in (row for run in runs for row in run if row["grain"] == grain):
        found.setdefault(row["stratum"], []).append(row)
    ordered = sorted(found.items(), key=lambda one: -sum(row["gpu_ns"] for row in one[1]))
    rows = [
        {
            "steps of": stratum,
            "runs": len(each),
            "fewest": min(row["units"] for row in each),
            "most": max(row["units"] for row in each),
            "mean_step_ns": mean(row["gpu_ns"] / row["units"] / row["lanes"] for row in each),
        }
        for stratum, each in ordered
    ]
    if rows:
        write_dicts(rows, OutputFormat("table"))


def _format_size(folder: Path) -> str:
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    return f"{size / 1e3:,.0f} kB"
