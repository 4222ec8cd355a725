"""Events of a database without a duration: marks of the program, and allocations."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from traceql.readers.dialects.ascend.vocabulary import Category, EventName
from traceql.readers.formats.ascend_db.event import Place, json_of
from traceql.readers.formats.ascend_db.host_sources import is_mark, pid_of, tid_of
from traceql.readers.formats.ascend_db.profile import Profile, time
from traceql.readers.tables import NAME

_POINT = pa.schema(
    [
        ("cat", NAME),
        ("name", NAME),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("place", pa.int64(), nullable=False),
        ("pid", pa.int64()),
        ("tid", pa.int64()),
        ("group", pa.int64()),
        ("args", pa.large_string()),
    ]
)
_MARKS, _MEMORY = "MSTX_EVENTS", "OP_MEMORY"


@dataclass(frozen=True)
class Points:
    """A kind of event without a duration, as SQL.

    Attributes:
        selected: the columns of a point but its time.
        at: the column with the time.
    """

    table: str
    selected: tuple[str, str, str, str, str, str, str]
    at: str
    where: str = "TRUE"

    def rows(self, profile: Profile) -> pa.Table:
        """Those that have a time."""
        cat, name, *others = self.selected
        selected = ", ".join([cat, name, time(self.at), *others])
        return profile.table(
            f"SELECT {selected} FROM {self.table} "
            f"WHERE {self.where} AND {time(self.at)} IS NOT NULL",
            _POINT,
        )

    def count(self, profile: Profile) -> int:
        """The number of them, with or without a time."""
        return int(profile.value(f"SELECT COUNT(*) FROM {self.table} WHERE {self.where}"))


def points(profile: Profile) -> Iterator[Points]:
    """The kinds of events without a duration that a database has."""
    if profile.has(_MARKS, "startNs", "endNs", "globalTid"):
        yield Points(
            _MARKS,
            (
                f"'{Category.MSTX}'",
                profile.text(_MARKS, "message"),
                str(int(Place.RANGES)),
                pid_of("globalTid"),
                tid_of("globalTid"),
                "NULL",
                json_of({"domain": profile.quoted(_MARKS, "domainId")}),
            ),
            "startNs",
            is_mark(profile),
        )
    for name, at, totals in (
        (EventName.ALLOCATION, "allocationTime", "allocation"),
        (EventName.RELEASE, "releaseTime", "release"),
    ):
        if profile.has(_MEMORY, "size", at):
            yield Points(
                _MEMORY,
                (
                    f"'{Category.MEMORY}'",
                    f"'{name}'",
                    str(int(Place.MEMORY)),
                    profile.whole(_MEMORY, "deviceId"),
                    "NULL",
                    "NULL",
                    json_of(
                        {
                            "bytes": profile.whole(_MEMORY, "size"),
                            "allocated": profile.whole(_MEMORY, f"{totals}TotalAllocated"),
                            "reserved": profile.whole(_MEMORY, f"{totals}TotalReserved"),
                            "active": profile.whole(_MEMORY, f"{totals}TotalActive"),
                            "operator": profile.quoted(_MEMORY, "name"),
                        }
                    ),
                ),
                at,
                # Not all is released while the profiler records.
                f"{at} IS NOT NULL AND {_is_of_torch(profile)}",
            )


def of_other_allocators(profile: Profile) -> int:
    """The number of rows of OP_MEMORY that are not of torch_npu's allocator.

    The engine of graphs has an allocator, and totals, of its own.
    """
    if not profile.has(_MEMORY):
        return 0
    return int(profile.value(f"SELECT COUNT(*) FROM {_MEMORY} WHERE NOT ({_is_of_torch(profile)})"))


def _is_of_torch(profile: Profile) -> str:
    """SQL of whether a row is of torch_npu's allocator, which alone knows a stream."""
    return "streamPtr IS NOT NULL" if profile.has(_MEMORY, "streamPtr") else "TRUE"
