"""How many ranks the job of a profile had, by what it states and by its communicators."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from traceql.readers.dialects.ascend.metadata import least_world_size
from traceql.readers.dialects.ascend.vocabulary import MOST_RANKS, Metadata
from traceql.readers.remarks import Remark


def largest_group(sizes: Iterable[object], peers: Iterable[object]) -> int | None:
    """The number of ranks of the largest communicator; None if nothing tells.

    Args:
        sizes: the numbers of ranks that operations state.
        peers: the places in their communicators of ranks that parts of operations are with. The
            largest number of 32 bits stands for none.
    """
    known = [size for size in sizes if is_number_of_ranks(size)]
    known += [peer + 1 for peer in peers if is_number_of_ranks(peer)]
    return max(known, default=None)


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


def is_number_of_ranks(value: object) -> TypeGuard[int]:
    """Whether this is a rank or a number of ranks; -1 and the largest of 32 bits mean none."""
    return type(value) is int and 0 <= value < MOST_RANKS
