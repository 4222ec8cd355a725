"""traceql advise"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.console import print_table, print_text
from traceql.cli.experiment.load import warn
from traceql.cli.output import require_csv, spreadsheet_option, wide_option
from traceql.cli.result_output import write_result

if TYPE_CHECKING:
    from traceql.plan.advise import Question
    from traceql.plan.advise.check import Check

_FILE = click.Path(path_type=Path)
_LAYOUT_OPTIONS = ("model", "gpu", "gpus", "goal", "run", "peaks", "results", "check")


@click.command("advise")
@click.argument("database", required=False, type=_FILE)
@click.option("--model", help="A model such as qwen3-32b, or the path of a config.json.")
@click.option("--gpu", help="A GPU such as h200; by default that of --run or --results.")
@click.option(
    "--gpus",
    type=click.IntRange(1, 16),
    default=8,
    show_default=True,
    help="Use at most this many GPUs, of one machine.",
)
@click.option(
    "--goal",
    default="max throughput",
    show_default=True,
    help='What for, e.g. "tpot < 20ms, ttft < 500ms, max throughput"; also min tpot or min gpus.',
)
@click.option("--run", type=_FILE, help="Predict from this database, a recording of one layout.")
@click.option(
    "--results",
    type=_FILE,
    help="Compare predictions with this experiment: a database of traceql experiment load, or a "
    "folder of results.",
)
@click.option(
    "--check",
    is_flag=True,
    help="With --results: write only the table of measured and predicted times.",
)
@click.option(
    "--peaks",
    type=_FILE,
    multiple=True,
    help="Peaks of the GPU, as for traceql load; measured ones have the times of collectives.",
)
@click.option(
    "--prompt-tokens", type=click.IntRange(1), default=1024, show_default=True, help="Per request."
)
@click.option(
    "--output-tokens", type=click.IntRange(2), default=256, show_default=True, help="Per request."
)
@click.option(
    "--max-model-len",
    type=click.IntRange(1),
    help="Keep room in the KV cache for requests of this length; by default, as long as they are.",
)
@click.option(
    "--gpu-memory-utilization",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Share of the memory that vLLM may use.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Output format, written to stdout; json and csv have the rows alone.",
)
@spreadsheet_option
@wide_option
@click.pass_context
def command(
    ctx: click.Context,
    database: Path | None,
    model: str | None,
    gpu: str | None,
    gpus: int,
    goal: str,
    run: Path | None,
    results: Path | None,
    check: bool,
    peaks: tuple[Path, ...],
    prompt_tokens: int,
    output_tokens: int,
    max_model_len: int | None,
    gpu_memory_utilization: float,
    format_: str,
    spreadsheet_safe: bool,
    wide: bool,
) -> None:
    """Say which layout to run, or check the set-up of a run.

    With --model, --run or --results: which tensor, pipeline, data and expert parallelism serves the
    goal best, how sure that is, and what does not fit. With DATABASE: what in its set-up is worth a
    look.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    if database:
        _require_no_layout_options(ctx)
        _write_checklist(database, format_, spreadsheet_safe, wide)
        return
    if check and results is None:
        raise click.UsageError("--check needs --results")
    from traceql.plan.advise import Question, parsed_goal
    from traceql.plan.advise.prediction import Requests

    question = Question(
        goal=parsed_goal(goal),
        model=model,
        gpu=gpu,
        gpus=gpus,
        requests=Requests(prompt_tokens, output_tokens),
        max_model_len=max_model_len,
        utilization=gpu_memory_utilization,
        run=run,
        peaks=peaks,
        results=results,
    )
    _write_layouts(question, format_, spreadsheet_safe, wide, only_check=check)


def _require_no_layout_options(ctx: click.Context) -> None:
    given = [
        name
        for name in _LAYOUT_OPTIONS
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            f"DATABASE is checked as it was run, without --{given[0]}; to predict layouts from it, "
            "give it with --run"
        )


def _write_layouts(
    question: "Question", format_: str, spreadsheet_safe: bool, wide: bool, *, only_check: bool
) -> None:
    from traceql.plan.advise import advise
    from traceql.plan.advise.answer import answer, reasons
    from traceql.plan.advise.rows import KEYS, layout_rows, shown

    advice = advise(question, warn=warn)
    if advice.check and only_check:
        _write_check(advice.check, format_, spreadsheet_safe, wide)
        return
    rows = layout_rows(advice)
    if format_ != "table":
        write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)
        return
    print_text(answer(advice), bold=True)
    for reason in reasons(advice, question.gpus):
        print_text(reason, before="  ")
    print_table(rows if wide else shown(rows), keys=KEYS, wide=wide)
    if advice.check:
        click.echo()
        click.secho("Measured, and predicted for the same load", bold=True)
        _write_check(advice.check, format_, spreadsheet_safe, wide)


def _write_check(check: "Check", format_: str, spreadsheet_safe: bool, wide: bool) -> None:
    from traceql.plan.advise.check import KEYS, check_rows

    rows = check_rows(check)
    if format_ == "table":
        print_table(rows, keys=KEYS, wide=wide)
    else:
        write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)


def _write_checklist(database: Path, format_: str, spreadsheet_safe: bool, wide: bool) -> None:
    from traceql.database.database import Database
    from traceql.plan.advise.advice import checklist

    with Database(database) as trace:
        rows = checklist(trace)
    if format_ == "table":
        print_table(rows, keys=rows.columns, wide=wide)
    else:
        write_result(rows, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)
