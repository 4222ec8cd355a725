"""What is read of an event of a database, whichever table it is in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import pyarrow as pa

from traceql.readers.formats.ascend_db.profile import Profile
from traceql.readers.tables import NAME

EVENT = pa.schema(
    [
        ("cat", NAME),
        ("name", NAME),
        pa.field("ts", pa.int64(), nullable=False),  # Unix time, ns
        pa.field("dur", pa.int64(), nullable=False),  # ns
        pa.field("place", pa.int64(), nullable=False),  # a Place
        ("pid", pa.int64()),  # process on the host, else device
        ("tid", pa.int64()),  # thread, stream, plane, or kind of an analysis
        ("group", pa.int64()),  # id of the communicator's name, if it has its own tracks
        # What a call of CANN and what it started share; for PyTorch's events an id
        # in CONNECTION_IDS.
        ("connection", pa.int64()),
        ("stream", pa.int64()),
        ("bytes", pa.int64()),  # of copies
        ("args", pa.large_string()),
    ]
)
_GIVEN = ("pid", "tid", "group", "connection", "stream", "bytes")


class Place(IntEnum):
    """The kinds of tracks."""

    PYTHON = 0
    CANN = 1
    RANGES = 2  # of MSTX, which need not nest
    HARDWARE = 3
    GROUP = 4  # whole operations of one communicator
    PLANE = 5  # their parts
    OVERLAP = 6
    MEMORY = 7


@dataclass(frozen=True)
class Source:
    """A kind of event.

    Attributes:
        table: the table whose rows they are; the ledger counts these.
        relation: SQL of the table, joined to others that say more of its rows.
        cat: SQL of the category.
        name: SQL of the name.
        start: SQL of the column with the start.
        end: SQL of the column with the end.
        columns: SQL of columns of EVENT, by name; NULL for the others.
        args: SQL of each argument as JSON, by its key.
        where: SQL that chooses the rows, whether they have a time or not.
    """

    table: str
    relation: str
    cat: str
    name: str
    start: str
    end: str
    place: Place
    columns: Mapping[str, str] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)
    where: str = "TRUE"


def events(profile: Profile, source: Source) -> pa.Table:
    """The events of one kind that have a time and do not end before it, as the table EVENT."""
    ts, end_ts = profile.times(source.start, source.end)
    selected = ", ".join(
        [
            source.cat,
            source.name,
            ts,
            f"{end_ts} - {ts}",
            str(int(source.place)),
            *(source.columns.get(name, "NULL") for name in _GIVEN),
            json_of(source.args),
        ]
    )
    return profile.table(
        f"SELECT {selected} FROM {source.relation} WHERE {source.where} AND {end_ts} >= {ts}", EVENT
    )


def counted(profile: Profile, source: Source) -> list[tuple[str, int, int]]:
    """Each category with the number of its rows and their duration, ns, counted by SQLite alone.

    Rows without a time are among them, although nothing can hold them.
    """
    ts, end_ts = profile.times(source.start, source.end)
    rows = profile.rows(
        f"SELECT {source.cat}, COUNT(*), COALESCE(SUM({end_ts} - {ts}), 0) "
        f"FROM {source.relation} WHERE {source.where} GROUP BY 1"
    )
    return [(str(cat), int(n), int(dur)) for cat, n, dur in rows]


def without_time(profile: Profile, source: Source) -> int:
    """The number of rows that have no start, no end, or an end before their start."""
    ts, end_ts = profile.times(source.start, source.end)
    return int(
        profile.value(
            f"SELECT COUNT(*) FROM {source.relation} "
            f"WHERE {source.where} AND NOT COALESCE({end_ts} >= {ts}, FALSE)"
        )
    )


def json_of(args: Mapping[str, str]) -> str:
    """The arguments, whose values are JSON already, as one object without those that are NULL.

    SQLite's own functions for objects take several times as long.
    """
    known = {key: value for key, value in args.items() if value != "NULL"}
    if not known:
        return "NULL"
    members = " || ".join(f"COALESCE(',\"{key}\":' || {value}, '')" for key, value in known.items())
    return f"'{{' || substr({members}, 2) || '}}'"
