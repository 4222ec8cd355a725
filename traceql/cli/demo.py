"""traceql demo"""

from pathlib import Path

import click

from traceql.cli.console import print_command, print_text
from traceql.cli.findings import write_findings
from traceql.cli.output import print_answer
from traceql.cli.progress import progress
from traceql.cli.summary import write_summary
from traceql.database.database import Database
from traceql.util.printable import one_line
from traceql.util.resources import EXAMPLE_TRACE

# The questions of the demo, and the query that answers each.
_QUESTIONS: tuple[tuple[str, str, dict[str, int | str]], ...] = (
    ("What did each GPU spend its time on?", "time.breakdown", {}),
    ("Which kinds of kernels took the most GPU time?", "kernels.by_category", {}),
    ("Which kernels were these?", "kernels.top", {"limit": 8}),
    ("How long do the steps take?", "steps.phases", {"rank": 0}),
    (
        "What does a decode step need, and where does the rest of its time go?",
        "step.waterfall",
        {"phase": "decode", "by": "bar"},
    ),
    ("Do the ranks wait for each other, or transfer data?", "comm.skew", {}),
    ("Why were the GPUs idle?", "idle.by_cause", {}),
)


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="demo.duckdb",
    show_default=True,
    help="Database file to create.",
)
def command(output: Path) -> None:
    """Load the bundled trace of a four-GPU run and show where the time went.

    The trace was recorded with Qwen3-32B on four H200s with tensor parallelism and CUDA graphs. It
    has one prefill step of 4 x 1024 tokens and five decode steps. The demo needs no GPU and no
    network.
    """
    from traceql.database.loading.load import load

    print_text("A real trace: Qwen3-32B in vLLM on 4 x H200, tensor parallelism, CUDA graphs.")
    click.echo()
    with progress() as done:
        load([EXAMPLE_TRACE], output, done=done)
    with Database(output) as trace:
        write_findings(trace, output)
        click.echo()
        write_summary(trace, output)
        for question, query, parameters in _QUESTIONS:
            options = "".join(f" --{name} {value}" for name, value in parameters.items())
            click.secho(f"\n{question}", bold=True)
            print_command(one_line(f"traceql run {query} {output}{options}"), before="  ")
            print_answer(trace, query, **parameters)
    click.echo("\nWith your own traces:")
    for command_line in (
        "traceql load YOUR_TRACES/ -o run.duckdb",
        'traceql sql run.duckdb "SELECT category, SUM(dur) FROM kernel GROUP BY 1"',
    ):
        print_command(command_line, before="  ")
