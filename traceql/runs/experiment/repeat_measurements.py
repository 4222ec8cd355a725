"""The measurements of one complete repeat, from the files of its folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from traceql.database.loading.json_document import json_document
from traceql.runs.experiment.bench import (
    Measured,
    finite_number,
    latency_measurements,
    serve_measurements,
)
from traceql.runs.experiment.documents import PointDocument, RepeatDocument
from traceql.runs.experiment.telemetry import telemetry_measurements
from traceql.util.input_file import Unusable


def repeat_measurements(
    folder: Path, point: PointDocument, run: RepeatDocument, warn: Callable[[str], None]
) -> list[Measured]:
    """What the benchmark said, and what follows from the telemetry, if that can be read.

    Args:
        warn: is told why there is no telemetry.

    Raises:
        Unusable: bench.json cannot be read, or has a number that is not possible.
    """
    said = _said(folder / "bench.json")
    return [*_measured(said, point), *_telemetry(folder, point, run, said, warn)]


def _said(file: Path) -> Mapping[str, Any]:
    """The result of a benchmark.

    Raises:
        Unusable: it cannot be read.
    """
    said = json_document(file).value
    if not isinstance(said, dict):
        raise Unusable("it is not a mapping")
    return said


def _measured(said: Mapping[str, Any], point: PointDocument) -> Iterator[Measured]:
    """The measurements of the result of a benchmark.

    Raises:
        Unusable: it has a number that is not possible.
    """
    if point.bench == "latency":
        batch = point.batch or point.requests
        yield from latency_measurements(said, batch=batch, output_tokens=point.output_tokens)
    else:
        yield from serve_measurements(said, output_tokens=point.output_tokens)


def _telemetry(
    folder: Path,
    point: PointDocument,
    run: RepeatDocument,
    said: Mapping[str, Any],
    warn: Callable[[str], None],
) -> Sequence[Measured]:
    """The measurements of the telemetry of a repeat; none if it cannot be read."""
    file, window = folder / "telemetry.parquet", _window(folder / "metrics.json")
    if point.bench == "latency" or window is None or not file.exists():
        return ()
    try:
        found = list(
            telemetry_measurements(
                file,
                gpus=_gpus(point, run),
                begin_ns=window[0],
                end_ns=window[1],
                output_tokens=round(finite_number(said.get("total_output_tokens")) or 0),
            )
        )
    except Unusable as error:
        warn(f"{file} cannot be used: {error}; the repeat has no energy")
        return ()
    return [one for one in found if isfinite(one[2])]


def _window(file: Path) -> tuple[int, int] | None:
    """From the first request to the last token, Unix time in ns."""
    try:
        measured = json_document(file).value["passes"]["unprofiled"]
        begin, end = measured["begin_unix_ns"], measured["end_unix_ns"]
    except (Unusable, KeyError, TypeError):
        return None
    is_time = isinstance(begin, int) and isinstance(end, int) and 0 <= begin < end < 2**62
    return (begin, end) if is_time else None


def _gpus(point: PointDocument, run: RepeatDocument) -> Sequence[int]:
    """The GPUs of the engine: those that are visible to it, the first ones first."""
    visible = str(
        point.engine.environment.get("CUDA_VISIBLE_DEVICES")
        or run.environment.get("CUDA_VISIBLE_DEVICES")
        or ""
    )
    numbers = [int(one) for one in visible.split(",") if one.strip().isdecimal() and len(one) < 10]
    return (numbers or range(len(run.gpus)))[: point.engine.gpus]
