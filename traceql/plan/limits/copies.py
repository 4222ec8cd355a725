"""Tables of copies: from each GPU to each other, and between the host and GPUs."""

from collections.abc import Mapping
from typing import Any

from traceql.database.loading.peaks_document import Collective, PeaksDocument

Rows = list[dict[str, Any]]

COPIES = ("peer_copy", "peer_copy_both")


def copies(peaks: PeaksDocument) -> Rows:
    """A row for each copy from one GPU to another; bytes and GB/s are of one direction."""
    found = [one for one in peaks.collectives if one.op in COPIES]
    return [
        {
            "op": one.op,
            "algorithm": one.algorithm,
            "source": one.source,
            "from_gpu": pair[0],
            "to_gpu": pair[1],
            "bytes": one.bytes,
            "ns": one.ns,
            "bandwidth_gbps": one.bytes / one.ns,
        }
        for one in found
        for pair in [_pair(one)]
    ]


def _pair(copy: Collective) -> tuple[int, int]:
    """Version 1 measured the first two GPUs alone, and did not say so."""
    if copy.from_gpu is None or copy.to_gpu is None:
        return 0, 1
    return copy.from_gpu, copy.to_gpu


def copy_matrices(peaks: PeaksDocument) -> dict[str, Rows]:
    """By title, GB/s from each GPU to each other, the best of all sizes."""
    best: dict[str, dict[tuple[int, int], float]] = {}
    for row in copies(peaks):
        is_both = row["op"] == "peer_copy_both"
        ways = "each of both directions at once" if is_both else "one direction"
        by = "by a kernel" if row["algorithm"] == "copy_kernel" else "by copy engines"
        measured = f", {row['source']}" if row["source"] else ""
        matrix = best.setdefault(f"{ways}, {by}{measured}", {})
        pairs = [(row["from_gpu"], row["to_gpu"])]
        for pair in [*pairs, *(pair[::-1] for pair in pairs if is_both)]:
            matrix[pair] = max(matrix.get(pair, 0.0), row["bandwidth_gbps"])
    return {title: _matrix(matrix) for title, matrix in best.items()}


def _matrix(gbps: Mapping[tuple[int, int], float]) -> Rows:
    sources = sorted({source for source, _ in gbps})
    targets = sorted({target for _, target in gbps})
    return [
        {
            "from": f"GPU {source}",
            **{f"to_gpu_{target}_gbps": gbps.get((source, target)) for target in targets},
        }
        for source in sources
    ]


def host_copies(peaks: PeaksDocument) -> Rows:
    """A row for each copy between the host and a GPU; bytes and GB/s are of one direction."""
    return [
        {
            "op": one.op,
            "gpu": one.gpu,
            "algorithm": one.algorithm,
            "source": one.source,
            "bytes": one.bytes,
            "ns": one.ns,
            "bandwidth_gbps": one.bytes / one.ns,
        }
        for one in peaks.host_copies
    ]
