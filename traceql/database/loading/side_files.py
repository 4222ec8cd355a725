"""The files beside traces that a load reads, too: their names, and the folders they lie in."""

from collections.abc import Iterable, Iterator
from pathlib import Path

RUN = "run.json"  # a folder with this file is a run directory, which has its traces in `traces`
METRICS = "metrics.json"
STEPS = "steps.jsonl"
TELEMETRY = "telemetry.parquet"
PEAKS = "peaks.json"
MODEL_CONFIG = "config.json"
GRAPH_NODES = "graph_nodes.json"
NAMES = (RUN, METRICS, STEPS, TELEMETRY, PEAKS, MODEL_CONFIG, GRAPH_NODES)


def folders_beside(trace: Path) -> tuple[Path, ...]:
    """The folder of a trace and the one around it, which is that of its run directory."""
    return tuple(trace.parents[:2])


def places_beside(traces: Iterable[Path]) -> Iterator[Path]:
    """Each path where a load of these traces may look for a file, whether there is one or not."""
    for folder in dict.fromkeys(folder for trace in traces for folder in folders_beside(trace)):
        for name in NAMES:
            yield folder / name
