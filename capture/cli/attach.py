"""traceql capture attach"""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from capture.cli.console import progress, warn, workload_options, write_latencies


@click.command("attach")
@click.argument("url")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=2.0,
    show_default=True,
    help="Seconds to record. Writing the traces takes several times as long.",
)
@click.option(
    "--load",
    is_flag=True,
    help="Send the requests of a workload, again and again, during the recording.",
)
@workload_options
@click.option(
    "--traces",
    type=click.Path(path_type=Path),
    help="The server's torch_profiler_dir.  [default: from the command line of the server, if it "
    "runs on this machine]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The run directory to create.  [default: runs/attach-DATE-TIME]",
)
def command(
    url: str,
    seconds: float,
    load: bool,
    traces: Path | None,
    output: Path | None,
    prompts_file: Path | None,
    **options: Any,
) -> None:
    """Record a running vLLM server for some seconds.

    Example: traceql capture attach http://localhost:8000 -o runs/live

    The server must have been started with --profiler-config. Without --load, only the requests
    that the server gets from its users are recorded, and the options that describe a workload
    (--mix to --prompts-file) have no effect.
    """
    from capture.attach import attach
    from capture.workload import KNOWN_TOKENS, file_workload, random_workload

    workload = None
    if load and prompts_file:
        workload = file_workload(
            prompts_file,
            output_tokens=options["output_tokens"],
            concurrency=options["concurrency"],
        )
    elif load:
        workload = random_workload(vocab_size=KNOWN_TOKENS, **options)
    with progress() as on_phase:
        attached = attach(
            url,
            output or Path("runs") / f"attach-{datetime.now():%Y%m%d-%H%M%S}",
            seconds=seconds,
            workload=workload,
            traces=traces,
            on_phase=on_phase,
            warn=warn,
        )
    if attached.traces_elsewhere:
        raise click.ClickException(attached.traces_elsewhere)
    click.echo(f"{attached.path}: {len(attached.facts['ranks'])} ranks, recorded for {seconds:g} s")
    if workload:
        write_latencies(attached.path)
    click.echo(f"next: traceql load {attached.path} -o run.duckdb")
