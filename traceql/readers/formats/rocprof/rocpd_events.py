"""The events of one process of a rocpd database."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from traceql.readers.formats.rocprof.columns import checked
from traceql.readers.formats.rocprof.recording import (
    EVENT,
    FARTHEST_NS,
    MARK,
    SAMPLE,
    Agent,
    Counted,
    Process,
)
from traceql.readers.formats.rocprof.rocpd_sources import DURATION, Source, Tables, message, sources
from traceql.readers.sqlite_file import SqliteFile

_TIMED = "COALESCE(source.start, 0) <> 0"  # the profiler writes zeros where it has no times
# Any text is greater than any number.
_BACKWARD = (
    f"COALESCE(source.start > 0 AND source.start <= {FARTHEST_NS} "
    'AND source."end" < source.start, FALSE)'
)
_READ = f"{_TIMED} AND NOT {_BACKWARD}"
_SAMPLES, _VALUES = "rocpd_sample", "rocpd_pmc_event"


class RocpdEvents:
    """Reads the events of one process.

    Args:
        suffix: how the names of its tables end.
        number: its number in these tables; None if they have no other process.
        agents: the processors, by their number in these tables.
    """

    def __init__(
        self, database: SqliteFile, suffix: str, number: int | None, agents: Mapping[int, Agent]
    ) -> None:
        self._database, self._number, self._agents = database, number, agents
        self._tables = Tables(database, suffix, agents)
        self._of_process = "TRUE" if number is None else f"source.pid = {number}"

    def process(self, pid: int | None, name: str | None) -> Process:
        """Everything of the process."""
        found = list(sources(self._tables))
        events = [self._database.table(self._event_sql(source), EVENT) for source in found]
        marks, samples = self._marks_sql(), self._samples_sql()
        return Process(
            pid,
            name,
            self._agents,
            checked(pa.concat_tables([EVENT.empty_table(), *events])),
            checked(self._database.table(marks, MARK) if marks else MARK.empty_table()),
            checked(self._database.table(samples, SAMPLE) if samples else SAMPLE.empty_table()),
            counted=[one for source in found for one in self._counted(source)],
            marks_counted=self._number_of_rows(marks),
            samples_counted=self._number_of_rows(samples),
            without_times=sum(self._number_of(source, f"NOT ({_TIMED})") for source in found),
            backward=sum(self._number_of(source, _BACKWARD) for source in found),
        )

    def _event_sql(self, source: Source) -> str:
        given = source.columns | {"on_gpu": str(int(source.on_gpu))}
        selected = ", ".join(given.get(name, "NULL") for name in EVENT.names)
        return f"SELECT {selected} FROM {source.relation} WHERE {_READ} AND {self._of_process}"

    def _counted(self, source: Source) -> Iterator[Counted]:
        """The number of events by category and place, counted by SQLite alone."""
        rows = self._database.rows(
            f"SELECT {source.columns['cat']}, {source.number}, COUNT(*), "
            f"SUM({DURATION}) FROM {source.relation} "
            f"WHERE {_READ} AND {self._of_process} GROUP BY 1, 2"
        )
        for cat, number, events, dur in rows:
            yield Counted(cat or "", source.on_gpu, number, events, dur)

    def _number_of(self, source: Source, condition: str) -> int:
        return int(
            self._database.value(
                f"SELECT COUNT(*) FROM {source.table} AS source "
                f"WHERE {condition} AND {self._of_process}"
            )
        )

    def _number_of_rows(self, sql: str | None) -> int:
        return int(self._database.value(f"SELECT COUNT(*) FROM ({sql})")) if sql else 0

    def _marks_sql(self) -> str | None:
        """Events without a duration: marks, and calls that began and ended at the same time.

        They have no names of their own, but a text, or else the name of their track.
        """
        tables = self._tables
        if not tables.has(_SAMPLES, "timestamp", "track_id") or not tables.has("rocpd_track", "id"):
            return None
        told = message() if tables.has("rocpd_event", "extdata") else "NULL"
        named = tables.column("rocpd_track", "name_id", "track")
        category = "event.category_id" if tables.has("rocpd_event", "category_id") else "NULL"
        values = tables.name(_VALUES)
        is_value = (
            f"AND source.event_id NOT IN (SELECT event_id FROM {values} WHERE event_id IS NOT NULL)"
            if tables.has(_VALUES, "event_id")
            else ""
        )
        return (
            f"SELECT category.string, COALESCE({told}, text.string), source.timestamp, "
            f"{tables.thread('rocpd_track', 'track')} "
            f"FROM {tables.name(_SAMPLES)} AS source "
            f"JOIN {tables.name('rocpd_track')} AS track ON track.id = source.track_id "
            f"{tables.events(_SAMPLES)} {tables.joined('rocpd_string', 'text', named)} "
            f"{tables.joined('rocpd_string', 'category', category)} "
            f"WHERE {self._of_process.replace('source', 'track')} {is_value}"
        )

    def _samples_sql(self) -> str | None:
        """Values of counters: of a kernel, summed over its units, or sampled over time."""
        tables = self._tables
        if not tables.has(_VALUES, "event_id", "pmc_id", "value"):
            return None
        info, kernels = "rocpd_info_pmc", "rocpd_kernel_dispatch"
        if not tables.has(info, "id", "name"):
            return None
        parts = []
        if tables.has(kernels, "event_id"):
            device = tables.device("source.agent_id")
            parts.append(
                f"SELECT pmc.name, source.start, SUM(value.value), {device} "
                f"FROM {tables.name(_VALUES)} AS value "
                f"JOIN {tables.name(kernels)} AS source ON source.event_id = value.event_id "
                f"JOIN {tables.name(info)} AS pmc ON pmc.id = value.pmc_id "
                f"WHERE {_READ} AND {self._of_process} GROUP BY source.id, pmc.name"
            )
        if tables.has(_SAMPLES, "event_id", "timestamp", "track_id"):
            device = tables.device(tables.column(info, "agent_id", "pmc"))
            of_process = "TRUE" if self._number is None else f"pmc.pid = {self._number}"
            parts.append(
                f"SELECT pmc.name, source.timestamp, SUM(value.value), {device} "
                f"FROM {tables.name(_VALUES)} AS value "
                f"JOIN {tables.name(_SAMPLES)} AS source ON source.event_id = value.event_id "
                f"JOIN {tables.name(info)} AS pmc ON pmc.id = value.pmc_id "
                f"WHERE {of_process} GROUP BY source.id, pmc.id"
            )
        return " UNION ALL ".join(parts) or None
