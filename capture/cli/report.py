"""Prints the results of a run in a few lines on stdout."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from capture.cli.progress import warn

if TYPE_CHECKING:
    from capture.record import Recorded

_IMPOSSIBLE_PCT = -5
_METRICS = (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2e", "end-to-end"))


def write_report(recorded: "Recorded") -> None:
    """Prints the overhead, the latencies and the next command."""
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
            "a negative overhead is measurement noise: requests were batched differently in the "
            "two passes, or the speed of the machine changed; record more steps for a better "
            "measurement"
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
        click.echo(f"{name}: {_latencies(measured['summary'])}")


def _latencies(summary: dict[str, Any]) -> str:
    parts = [
        f"{title} {found['p50'] / 1e6:.1f} ms (p99 {found['p99'] / 1e6:.1f})"
        for key, title in _METRICS
        if (found := summary[key])
    ]
    rate = summary["output_tokens_per_s"]
    return ", ".join([*parts, f"{rate:,.0f} output tokens/s" if rate else "no tokens"])
