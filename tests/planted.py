"""Recordings with a planted cause: what is true of each, and what must not be said."""

import gzip
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import databases

PLANTED = databases.SHARED.parent / "planted"


@dataclass(frozen=True)
class Truth:
    """What is true of a recording; decided when it was made, before any diagnosis.

    Attributes:
        first: causes of which one must be the first finding; empty for a healthy run.
        saving_pct: what ending the cause saved of a step without the profiler, measured with
            another recording; None if it was not.
        never: patterns that no text of a finding may match.
        not_severe: whether no finding may be severe.
        rank: the rank that the first finding names; None if it must name none.
    """

    first: tuple[str, ...]
    saving_pct: float | None
    never: tuple[str, ...] = ()
    not_severe: bool = False
    rank: int | None = None


# No rank is at fault unless the truth names one: equal hosts would save at most 17%.
_A_RANK = r"(?i)(pin|taskset|numa).*rank \d|host of rank \d"
TRUTHS = {
    "base": Truth(
        (),
        None,
        (_A_RANK, r"(?i)throttl", r"max.num.batched.tokens \d{1,4}\b", r"enforce.eager"),
        not_severe=True,
    ),
    "eager": Truth(("cuda_graphs_off",), 65, (_A_RANK, r"max.cudagraph.capture.size")),
    "smallcap": Truth(
        ("cuda_graph_sizes",),
        75,
        (_A_RANK, r"enforce.eager", r"--max-cudagraph-capture-size", r"(?i)throttl"),
    ),
    "pad": Truth((), None, (_A_RANK, r"enforce.eager"), not_severe=True),
    "busycpu": Truth(
        ("slow_host_rank", "launch_thread_starved"), 65, (r"host of rank 0", r"rank 0 \("), rank=1
    ),
    "ngram": Truth(
        ("speculation_no_async", "sync_scheduling"),
        45,
        (
            _A_RANK,
            r"(?i)tokens? (are|is|were) rejected",
            r"(?i)(turn|switch) .*speculation off|without --speculative",
            r"--async-scheduling",
        ),
    ),
}


def texts_of(finding: dict[str, Any]) -> Iterator[str]:
    """All that a finding says."""
    yield finding["headline"]
    yield from finding["evidence"]
    yield finding["remedy"]
    yield from filter(None, [finding["unknowns"]])


def without_run_directory(run: Path, folder: Path) -> Path:
    """The traces alone."""
    return Path(shutil.copytree(run / "traces", folder / "traces"))


def one_rank(run: Path, folder: Path) -> Path:
    """The run directory with the trace of rank 0 alone."""
    copied = Path(shutil.copytree(run, folder / "run"))
    for trace in (copied / "traces").glob("rank[1-9]*"):
        trace.chmod(0o644)
        (copied / "traces").chmod(0o755)
        trace.unlink()
    return copied


def without_cpu_events(run: Path, folder: Path) -> Path:
    """The run directory with traces that have activities of GPUs alone, as a light recording."""
    copied = Path(shutil.copytree(run, folder / "run"))
    kept = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}
    for trace in (copied / "traces").glob("rank*.json.gz"):
        document = json.loads(gzip.decompress(trace.read_bytes()))
        document["traceEvents"] = [
            event
            for event in document["traceEvents"]
            if event.get("ph") == "M" or event.get("cat") in kept
        ]
        trace.chmod(0o644)
        trace.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return copied
