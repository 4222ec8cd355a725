"""traceql demo"""

from pathlib import Path

import click

from traceql.cli.findings import write_findings
from traceql.cli.output import write_table
from traceql.cli.progress import progress
from traceql.cli.summary import write_summary
from traceql.resources import EXAMPLE_TRACE
from traceql.trace import Trace

# Each query of the demo, and the question that it answers.
_QUESTIONS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("Where did each GPU's time go?", "time.breakdown", {}),
    ("Which kernels took it?", "kernels.by_category", {}),
    ("Which by name?", "kernels.top", {"limit": 8}),
    ("How long do steps take?", "steps.phases", {"rank": 0}),
    ("Do ranks wait for each other, or move bytes?", "comm.skew", {}),
    ("Why was the GPU idle?", "idle.by_cause", {}),
)


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="demo.duckdb",
    show_default=True,
    help="The database that the demo makes.",
)
def command(output: Path) -> None:
    """Load the bundled trace of a four-GPU run and show where its time went.

    Qwen3-32B on four H200, tensor-parallel, CUDA graphs: one prefill step of 4 x 1024 tokens and
    five decode steps, as recorded. Needs no GPU and no network.
    """
    from traceql.loading.load import load

    click.echo("Qwen3-32B on 4 x H200, vLLM, tensor parallel, CUDA graphs: a real recording.\n")
    with progress() as done:
        load([EXAMPLE_TRACE], output, done=done)
    with Trace(output) as trace:
        write_findings(trace, output)
        click.echo()
        write_summary(output)
        for question, query, parameters in _QUESTIONS:
            options = "".join(f" --{name} {value}" for name, value in parameters.items())
            click.secho(f"\n{question}", bold=True)
            click.echo(f"  traceql run {query} {output}{options}")
            write_table(trace.run(query, **parameters))
    click.echo("Ask your own:  traceql load YOUR_TRACES/ -o run.duckdb")
    click.echo(
        '               traceql sql run.duckdb "SELECT category, SUM(dur) FROM kernel GROUP BY 1"'
    )
