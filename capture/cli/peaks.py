"""traceql experiment peaks measure"""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import click

from capture.cli.console import CaptureCommand, progress, warn


@click.command("measure", cls=CaptureCommand, context_settings={"show_default": True})
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="peaks.json",
    help="The file to write. traceql load finds a peaks.json in a run directory by itself.",
)
@click.option(
    "--model",
    help="A config.json, a model folder or a built-in architecture such as qwen3-8b: its matrix "
    "products are measured too, for 1 to 256 tokens.",
)
@click.option(
    "--tp",
    type=click.IntRange(1),
    default=1,
    help="Tensor-parallel size that the products of the model are divided by.",
)
@click.option(
    "--device",
    "devices",
    type=click.IntRange(0),
    multiple=True,
    help="GPU to measure, as nvidia-smi numbers it; may be repeated. Memory and products are "
    "measured on the first, communication between all.  [default: all that CUDA sees]",
)
@click.option(
    "--warm-up",
    "warm_up_s",
    type=click.FloatRange(0),
    default=30.0,
    help="Seconds of load before anything is measured: a cold GPU has a higher clock.",
)
def command(
    output: Path, model: str | None, tp: int, devices: tuple[int, ...], warm_up_s: float
) -> None:
    """Measure what the GPUs of this machine can reach: memory, products, communication.

    Example: traceql experiment peaks measure --model qwen3-8b --tp 2 -o runs/chat/peaks.json

    It takes two to five minutes, and fails if another program uses the GPUs. Print the results
    with traceql experiment peaks show, or load them with a trace: traceql load runs/chat, or
    traceql load TRACE --peaks peaks.json.
    """
    from capture.peaks.measure import measure

    with progress() as on_phase:
        document = measure(
            output,
            model=model,
            tp=tp,
            devices=devices,
            warm_up_s=warm_up_s,
            on_phase=on_phase,
            warn=warn,
        )
    for line in _summary(document):
        click.echo(line)
    click.echo(f"{output}: measured in {document['seconds']:.0f} s")
    click.echo(f"All of it: traceql experiment peaks show {quote(str(output))}")


def _summary(document: Mapping[str, Any]) -> list[str]:
    lines = [document["device_name"]]
    for dtype in dict.fromkeys(one["dtype"] for one in document["products"]):
        best = max((p for p in document["products"] if p["dtype"] == dtype), key=_tflops)
        shape = " x ".join(str(best[name]) for name in "mkn")
        lines.append(f"  {dtype} products  {_tflops(best):8.1f} TFLOP/s  ({shape}, {best['load']})")
    for op in dict.fromkeys(one["op"] for one in document["memory"]):
        best_gbps = max(m["bytes"] / _shortest(m) for m in document["memory"] if m["op"] == op)
        lines.append(f"  memory {op:<6} {best_gbps:8.1f} GB/s")
    for ranks, op, algorithm in dict.fromkeys(map(_group, document["collectives"])):
        group = [c for c in document["collectives"] if _group(c) == (ranks, op, algorithm)]
        shortest = min(c["ns"] for c in group) / 1e3
        best_gbps = max(c["bytes"] / c["ns"] for c in group)
        lines.append(
            f"  {op} ({algorithm}, {ranks} GPUs)  {best_gbps:8.1f} GB/s, at least {shortest:.1f} us"
        )
    if document["kernel"]:
        lines.append(f"  small kernel  {document['kernel']['ns']:8.0f} ns")
    return lines


def _group(collective: Mapping[str, Any]) -> tuple[int, str, str]:
    return collective["ranks"], collective["op"], collective["algorithm"]


def _tflops(product: Mapping[str, Any]) -> float:
    return 2e-3 * float(product["m"] * product["k"] * product["n"] / _shortest(product))


def _shortest(measurement: Mapping[str, Any]) -> float:
    return float(measurement.get("fastest_ns") or measurement["ns"])
