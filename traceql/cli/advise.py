"""traceql advise"""

from typing import TYPE_CHECKING, Any

import click

from traceql.cli.options import PATH, OutputFormat, format_options
from traceql.cli.output import print_table, print_text, print_warning, write_result

if TYPE_CHECKING:
    from traceql.plan.advise import Advice
    from traceql.plan.advise.check import Check


@click.command()
@click.option("--model", help="Model such as qwen3-32b, or the path of a config.json.")
@click.option("--gpu", help="GPU such as h200; by default that of --run or --results.")
@click.option(
    "--gpus",
    type=click.IntRange(1, 16),
    default=8,
    help="Maximum number of GPUs, all in one machine.",
)
@click.option(
    "--goal",
    default="max throughput",
    help='Limits and a target, e.g. "tpot < 20ms, ttft < 500ms, max throughput"; the target may '
    "also be min tpot or min gpus.",
)
@click.option("--run", type=PATH, help="Predict from this database of a recorded layout.")
@click.option(
    "--results",
    type=PATH,
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
    type=PATH,
    multiple=True,
    help="Peaks of the GPU, as for traceql load; measured peaks include collective times.",
)
@click.option("--prompt-tokens", type=click.IntRange(1), default=1024, help="Per request.")
@click.option("--output-tokens", type=click.IntRange(2), default=256, help="Per request.")
@click.option(
    "--max-model-len",
    type=click.IntRange(1),
    help="Reserve KV cache for requests of this length.  [default: the length of the requests]",
)
@click.option(
    "--gpu-memory-utilization",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    help="Share of GPU memory that vLLM may use.",
)
@format_options(
    *("table", "json", "csv"),
    help_text="Output format, written to stdout; json and csv have only the rows.",
)
def advise(
    *,
    check: bool,
    gpu_memory_utilization: float,
    output_format: OutputFormat,
    **options: Any,
) -> None:
    """Recommend a parallel layout.

    Ranks layouts of tensor, pipeline, data and expert parallelism by the goal, with the error of
    the prediction and the layouts that do not fit.
    """
    if check and options["results"] is None:
        raise click.UsageError("--check needs --results")
    from traceql.plan.advise import advise as recommend

    advice = recommend(**options, utilization=gpu_memory_utilization, warn=print_warning)
    if advice.check and check:
        _write_check(advice.check, output_format)
    else:
        _write_layouts(advice, output_format)


def _write_layouts(advice: "Advice", output_format: OutputFormat) -> None:
    from traceql.plan.advise.sentences import answer, reasons
    from traceql.plan.advise.tables import LAYOUT_KEYS, layout_rows, without_details

    rows = layout_rows(advice)
    if output_format.name != "table":
        write_result(rows, output_format)
        return
    print_text(answer(advice), bold=True)
    for reason in reasons(advice):
        print_text(reason, before="  ")
    wide = output_format.wide
    print_table(rows if wide else without_details(rows), keys=LAYOUT_KEYS, wide=wide)
    if advice.check:
        click.echo()
        click.secho("Measured, and predicted for the same load", bold=True)
        _write_check(advice.check, output_format)


def _write_check(check: "Check", output_format: OutputFormat) -> None:
    from traceql.plan.advise.tables import CHECK_KEYS, check_rows

    write_result(check_rows(check), output_format, keys=CHECK_KEYS)
