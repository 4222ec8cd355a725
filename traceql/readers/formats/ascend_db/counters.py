"""Samples of counters: clocks, memory and bandwidths, in the units of the database.

Names are those of the text export where it has the counter. Units are not: the text export has
megabytes where the database has bytes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from traceql.readers.formats.ascend_db.profile import Profile, time, whole
from traceql.readers.tables import COUNTER, NAME

_SAMPLE = pa.schema(
    [("name", NAME), pa.field("ts", pa.int64(), nullable=False), ("value", pa.float64())]
)
_MODULES = "ENUM_MODULE"


@dataclass(frozen=True)
class _Kind:
    """A column of samples.

    Attributes:
        needs: the columns without which it cannot be read, beside those of the time and the value.
        name: SQL of the name.
        process: the name of the track.
    """

    process: str
    table: str
    name: str
    value: str
    unit: str | None
    at: str = "timestampNs"
    needs: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """SQL of the value; NULL where it is no number."""
        is_number = f"typeof({self.value}) IN ('integer', 'real')"
        return f"CASE WHEN {is_number} THEN CAST({self.value} AS REAL) END"

    def is_in(self, profile: Profile) -> bool:
        return profile.has(self.table, self.value, self.at, *self.needs)


class Samples:
    """The samples of all counters."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._kinds = [kind for kind in _kinds(profile) if kind.is_in(profile)]

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables with samples."""
        return frozenset(kind.table for kind in self._kinds)

    def table(self, track_of: Callable[[str], int]) -> pa.Table:
        """The samples with a time and a value, as the table `COUNTER`."""
        found = [COUNTER.empty_table()]
        for kind in self._kinds:
            rows = self._profile.table(
                f"SELECT COALESCE({kind.name}, '{kind.process}'), {time(kind.at)}, {kind.number} "
                f"FROM {kind.table} "
                f"WHERE {time(kind.at)} IS NOT NULL AND {kind.number} IS NOT NULL",
                _SAMPLE,
            )
            if not rows.num_rows:
                continue
            columns = [
                rows["name"],
                pa.array([kind.unit] * rows.num_rows, pa.large_string()).cast(NAME),
                rows["ts"],
                rows["value"],
                pa.array(np.full(rows.num_rows, track_of(kind.process))),
            ]
            found.append(pa.table(columns, schema=COUNTER))
        return pa.concat_tables(found).unify_dictionaries()

    @cached_property
    def count(self) -> int:
        """The number of samples, counted by SQLite alone; those without a time are among them."""
        return sum(
            int(self._profile.value(f"SELECT COUNT({kind.value}) FROM {kind.table}"))
            for kind in self._kinds
        )


def _kinds(profile: Profile) -> Iterator[_Kind]:
    yield _Kind("AI Core Freq", "AICORE_FREQ", "'AI Core Freq'", "freq", "MHz")
    yield from _memory()
    yield from _bandwidths()
    yield from _levels()
    yield _of_modules(profile)
    yield from _allocators()


def _memory() -> Iterator[_Kind]:
    owner = _word("type", app="APP", device="Device")
    for value, what in (("ddr", "DDR"), ("hbm", "HBM")):
        yield _Kind("NPU MEM", "NPU_MEM", f"{owner} || '/{what}'", value, "B", needs=("type",))


def _bandwidths() -> Iterator[_Kind]:
    """Of the HBM, the last-level cache and the classes of service."""
    memory = f"'HBM ' || hbmId || '/' || {_word('type', read='Read', write='Write')}"
    yield _Kind("HBM", "HBM", memory, "bandwidth", "B/s", needs=("hbmId", "type"))
    cache = f"'LLC ' || llcId || ' ' || {_word('mode', read='Read', write='Write')}"
    for value, what, unit in (("hitRate", "Hit Rate", "%"), ("throughput", "Throughput", "B/s")):
        yield _Kind("LLC", "LLC", f"{cache} || '/{what}'", value, unit, needs=("llcId", "mode"))
    quality = f"'QoS ' || {_word('eventName')}"
    yield _Kind("QoS", "QOS", quality, "bandwidth", None, needs=("eventName",))


def _levels() -> Iterator[_Kind]:
    """Of accelerators and of the chip, which have no unit."""
    for value, what in (
        ("readBwLevel", "read_bandwidth"),
        ("writeBwLevel", "write_band_width"),
        ("readOstLevel", "read_ost"),
        ("writeOstLevel", "write_ost"),
    ):
        name = f"'{what} (acc_id ' || accId || ')'"
        yield _Kind("Acc PMU", "ACC_PMU", name, value, None, needs=("accId",))
    for value, what in (("l2BufferBwLevel", "L2 Buffer"), ("mataBwLevel", "Mata")):
        yield _Kind("Stars Soc Info", "SOC_BANDWIDTH_LEVEL", f"'{what} Bw Level'", value, None)


def _of_modules(profile: Profile) -> _Kind:
    module = "moduleId"
    if profile.has(_MODULES, "id", "name"):
        named = f"SELECT CAST(name AS TEXT) FROM {_MODULES} WHERE id = moduleId"
        module = f"COALESCE(({named}), {module})"
    name = f"'module ' || {module} || ' Total Reserved'"
    return _Kind("NPU MEM", "NPU_MODULE_MEM", name, "totalReserved", "B", needs=("moduleId",))


def _allocators() -> Iterator[_Kind]:
    for value, what in (
        ("totalAllocated", "Total Allocated"),
        ("totalReserved", "Total Reserved"),
        ("totalActive", "Total Active"),
    ):
        yield _Kind(
            "Memory",
            "MEMORY_RECORD",
            f"{_word('component')} || ' {what}'",
            value,
            "B",
            at="timestamp",
            needs=("component",),
        )


def _word(column: str, **spelled: str) -> str:
    """SQL of the text that a column refers to; some are spelled otherwise in the text export."""
    word = f"text({whole(column)})"
    cases = " ".join(f"WHEN '{given}' THEN '{text}'" for given, text in spelled.items())
    return f"CASE {word} {cases} ELSE {word} END" if cases else word
