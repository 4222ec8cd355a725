"""What a file of another program has for a peaks.json."""

from collections.abc import Sequence
from dataclasses import dataclass

from traceql.database.loading.peaks import Collective, HostCopy, Memory, Source


@dataclass(frozen=True)
class Found:
    """Rows of a file.

    Attributes:
        left_out: a sentence for each test that has no place in a peaks.json.
    """

    device_name: str
    source: Source
    collectives: Sequence[Collective] = ()
    memory: Sequence[Memory] = ()
    host_copies: Sequence[HostCopy] = ()
    left_out: Sequence[str] = ()
