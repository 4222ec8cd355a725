"""What the ledger has to say about the job of a profile, and the files of its rank."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from traceql.readers.dialects.ascend.metadata import least_world_size
from traceql.readers.dialects.ascend.vocabulary import Metadata
from traceql.readers.formats.ascend.layout import others_beside
from traceql.readers.remarks import Remark


def job_size_remarks(metadata: Mapping[str, Any]) -> Iterator[Remark]:
    """Whether the job is stated to be smaller than what ran in it."""
    stated, least = metadata.get(Metadata.WORLD_SIZE), least_world_size(metadata)
    if stated is not None and stated < least:
        yield Remark(
            "statements of the number of ranks",
            stated,
            least,
            False,
            "ranks of the job by profiler_metadata.json; ranks that there must be by the number of "
            "this one, the process groups and the communicators, which is used",
        )


def file_remarks(path: Path, damaged: Sequence[str]) -> Iterator[Remark]:
    """Other traces of the rank, and files that could not be used.

    Args:
        damaged: a sentence for each of the latter.
    """
    if others := others_beside(path):
        listed = ", ".join(other.name for other in others)
        note = f"traces read of those beside {path.name}: {listed}. One is read for each rank"
        yield Remark("other traces of the rank", 0, len(others), None, note)
    for reason in damaged:
        yield Remark("file beside the trace", 0, 1, False, f"not used: {reason}")
