"""Options, progress, results and error messages that the capture commands share."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from capture.environment import require_packages
from capture.errors import CaptureError
from capture.supervise import OnPhase
from capture.workload import DEFAULT_MIX, MIXES

if TYPE_CHECKING:
    from capture.record import Recorded


_LABELS = {
    "engine": "starting the engine",
    "warmup": "warming up",
    "unprofiled": "measuring without the profiler",
    "record": "recording",
    "heat": "warming up the GPU (half a minute)",
    "products": "measuring matrix products",
    "memory": "measuring memory bandwidth",
    "communication": "measuring communication between the GPUs",
    "write": "waiting for vLLM to write the traces (can take minutes)",
}


@contextmanager
def progress() -> Iterator[OnPhase]:
    """Yields a function that shows the progress of a capture."""
    if sys.stderr.isatty():
        with _bars() as show:
            yield show
        return
    shown: set[str] = set()

    def show_line(phase: str, _count: int, _total: int) -> None:
        if phase not in shown:
            shown.add(phase)
            click.echo(f"{_LABELS[phase]} ...", err=True)

    yield show_line


@contextmanager
def _bars() -> Iterator[OnPhase]:
    require_packages("rich")
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, progress.TaskID] = {}

        def finish_bars() -> None:
            for task in tasks.values():
                bars.update(task, completed=1, total=1)
                bars.stop_task(task)

        def show_bar(phase: str, count: int, total: int) -> None:
            if phase not in tasks:
                finish_bars()
                tasks[phase] = bars.add_task(_LABELS[phase], total=None)
            bars.update(tasks[phase], completed=count, total=total or None)

        yield show_bar
        finish_bars()


def warn(message: str) -> None:
    click.echo(f"traceql: warning: {message}", err=True)


_INTERRUPTED = 130


class CaptureCommand(click.Command):
    """A command that ends with status 1 after a CaptureError, and with 130 after Ctrl-C."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CaptureError as error:
            message = str(error)
        except ExceptionGroup as group:  # of several requests that failed together
            known, other = group.split(CaptureError)
            if known is None or other is not None:
                raise
            first: BaseException = known
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            message = str(first)
        except KeyboardInterrupt:
            click.echo("traceql: interrupted; all processes of the run have ended", err=True)
            ctx.exit(_INTERRUPTED)
        click.echo(f"traceql: {' '.join(message.split())}", err=True)
        ctx.exit(1)


_IMPOSSIBLE_PCT = -5
_METRICS = (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2e", "end-to-end"))


def write_report(recorded: "Recorded") -> None:
    facts = recorded.facts
    window = facts["window"]
    traces = {recorded.path / rank["trace"] for rank in facts["ranks"]}
    size = sum(trace.stat().st_size for trace in traces) / 1e6
    click.echo(
        f"{recorded.path}: {len(facts['ranks'])} ranks, {window['iterations']} engine iterations, "
        f"{size:.1f} MB of traces"
    )
    overhead = facts["overhead"]
    click.echo(
        f"profiler overhead, measured over the {overhead['measured_over']}: "
        f"{overhead['overhead_pct']:+.1f}% "
        f"({overhead['profiled_ns'] / 1e6:.1f} ms with the profiler, "
        f"{overhead['unprofiled_ns'] / 1e6:.1f} ms without)"
    )
    if overhead["overhead_pct"] < _IMPOSSIBLE_PCT:
        warn(
            "a negative overhead is measurement noise: the passes batched requests differently, or "
            "the speed of the machine changed; record more steps for a better measurement"
        )
    for name in ("profiled", "unprofiled"):
        if stall_ns := overhead[f"{name}_stall_ns"]:
            warn(
                f"one step of the {name} pass took {stall_ns / 1e6:.0f} ms, many times longer than "
                "the others, because kernels were compiled in it; the overhead above is therefore "
                "wrong; record again with a higher --warmup"
            )
    write_latencies(recorded.path)
    click.echo(f"next: traceql load {recorded.path} -o run.duckdb")


def write_latencies(run: Path) -> None:
    """Prints the latencies of each pass of a run, one line per pass."""
    passes = json.loads((run / "metrics.json").read_text())["passes"]
    for name, measured in passes.items():
        summary = measured["summary"]
        parts = [
            f"{title} {found['p50'] / 1e6:.1f} ms (p99 {found['p99'] / 1e6:.1f})"
            for key, title in _METRICS
            if (found := summary[key])
        ]
        rate = summary["output_tokens_per_s"]
        parts.append(f"{rate:,.0f} output tokens/s" if rate else "no tokens")
        click.echo(f"{name}: {', '.join(parts)}")


((_PROMPT_TOKENS, _OUTPUT_TOKENS),) = DEFAULT_MIX.shapes
_OPTIONS = (
    click.option(
        "--mix",
        type=click.Choice(list(MIXES)),
        help=f"A named workload.  [default: {DEFAULT_MIX.prompts} requests of {_PROMPT_TOKENS} "
        f"prompt and {_OUTPUT_TOKENS} output tokens]",
    ),
    click.option("--prompts", type=click.IntRange(1), help="Number of requests."),
    click.option("--prompt-tokens", type=click.IntRange(1), help="Tokens in each prompt."),
    click.option(
        "--output-tokens", type=click.IntRange(1), help="Tokens generated for each prompt."
    ),
    click.option("--concurrency", type=click.IntRange(1), help="Requests in flight."),
    click.option("--seed", default=0, help="Seed of lengths and token ids."),
    click.option(
        "--prompts-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A file with one prompt per line: text, or a JSON array of token ids.",
    ),
)


def workload_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
