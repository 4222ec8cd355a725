"""A loaded run in Python: its findings, queries, SQL and tables, and what is made of them."""

import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from traceql.analysis.diagnosis.texts import nothing_found, saving
from traceql.database.cache import database_of
from traceql.database.database import Database
from traceql.database.opening import attach_public
from traceql.errors import QueryInvalid, TraceqlError
from traceql.result import Result
from traceql.sql.registry import public_tables
from traceql.util.text import suggestion

if TYPE_CHECKING:
    import pandas as pd

    from traceql.readers.trace_processor import TraceProcessor
    from traceql.runs.compare import Comparison

# What other modules of traceql use of a database.
_INTERNAL = {
    *("batches", "command_argument", "count", "excerpt_info", "excerpt_of", "excerpt_options"),
    *("make", "select", "terminology"),
}
_SIZE = """
    SELECT
        (SELECT COUNT(rank) FROM trace) AS ranks,
        (SELECT string_agg(DISTINCT device_name, ', ') FROM trace) AS devices,
        (SELECT COUNT(*) FROM step) AS steps,
        (SELECT COUNT(*) FROM kernel) AS kernels
"""


class Run(Database):
    """A loaded run, opened read-only. Close it with `with` or `close()`.

    Threads may share it, except for `con`.

    Args:
        path: a file made by `traceql.load`.
        queries: folders with your own queries.

    Raises:
        DatabaseError: the file does not exist, is not a traceql database, or is locked by a program
            that may write it.
    """

    def __init__(self, path: str | Path, *, queries: Sequence[str | Path] = ()) -> None:
        super().__init__(path, queries=queries)
        self._con: duckdb.DuckDBPyConnection | None = None
        self._attached: tuple[str, set[str]] | None = None  # name of the database, and its tables

    run = Database.query  # the earlier name, for one release

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """Your own DuckDB connection to the run, which only reads it; it has all public tables.

        Unlike `sql`, it is not confined: statements see data frames in scope by their names, and
        may read and write files. Internal tables appear once something has made them.
        """
        file = self._tables.make(public_tables().keys())
        if self._con is None:
            self._con = duckdb.connect(config={"temp_directory": f"{self.path}.tmp"})
        if self._attached is None or self._attached[1] != self._tables.made:
            if self._attached:
                self._con.execute(f"USE memory; DETACH {self._attached[0]}")
            self._attached = attach_public(self._con, file), self._tables.made
        return self._con

    @property
    def tables(self) -> "Tables":
        """The public tables by name."""
        return Tables(self)

    def complete(self) -> None:
        """Makes all tables that are not made yet, in the file or, if it is read-only, for now.

        Raises:
            DatabaseError: the database was replaced by a load meanwhile, or there is no room.
        """
        self._tables.make()

    @property
    def findings(self) -> "Findings":
        """The causes that cost the most time, severe ones first."""
        return Findings(self.query("overview.findings"), self)

    def report(self, path: str | Path = "report.html") -> None:
        """Writes the report: a page that works offline, or the same rows as a JSON document.

        Args:
            path: ends in .html or .json.

        Raises:
            TraceqlError: it has another suffix, or it cannot be written.
        """
        from traceql.present.report.run_report import page, write_json
        from traceql.util.files import atomic_write

        path = Path(path)
        match path.suffix.lower():
            case ".html":
                with atomic_write(path) as draft:
                    draft.write_bytes(page(self).encode())
            case ".json":
                write_json(self, path)
            case _:
                raise TraceqlError(f"cannot write a report into '{path}'; name a .html or .json")

    def ui(
        self,
        *,
        step: int | None = None,
        layer: int | None = None,
        finding: int | None = None,
        offline: bool = False,
    ) -> None:
        """Opens the run in Perfetto in a browser; returns when the page has it.

        Args:
            step: zooms to a step (step.step_id).
            layer: of that step.
            finding: zooms to a finding, by its number from 1.
            offline: serves the installed copy of the Perfetto UI, until it is interrupted.

        Raises:
            TraceqlError: there is no such place, or the port is in use.
        """
        from traceql.present.pftrace import RunView
        from traceql.present.ui import server as ui
        from traceql.present.ui.place import place_of

        place = place_of(self, step, layer, finding)
        page_of = ui.offline_page if offline else ui.online_page
        with (
            ui.PageServer(0 if offline else ui.PORT) as server,
            ui.enriched_page(server, page_of, [RunView(self)], place) as page,
        ):
            print(page.link)  # where no browser opens, as over SSH
            webbrowser.open(page.link)
            server.serve(page.site)

    def diff(self, other: "Run | str | Path") -> "Comparison":
        """Compares another run with this one, which is the base.

        Args:
            other: a run, or what `traceql.diff` accepts, which has more options.

        Raises:
            TraceqlError: the path does not exist or cannot be read.
        """
        from traceql.runs.compare import diff

        new = other.path if isinstance(other, Run) else other
        return diff(self.path, new)

    def excerpt(
        self,
        *,
        from_ns: int | None = None,
        to_ns: int | None = None,
        steps: int | tuple[int, int] | None = None,
        sample: int | None = None,
    ) -> "Run":
        """Opens an excerpt, in a temporary file that is removed when it is closed.

        Args:
            from_ns: start of a span of time, ns since the run's first event; by default that event.
            to_ns: its end, which is not in it; by default the end of the recording.
            steps: instead, a step (step.step_id), or the first and the last one of several; the
                same iterations of all ranks are in the excerpt.
            sample: instead, every Nth iteration of each phase.

        Raises:
            TraceqlError: there is no such time or step; the message says what there is.
        """
        from traceql.database.excerpt import ExcerptSelection

        of_steps = (steps, steps) if isinstance(steps, int) else steps
        return self.excerpt_of(ExcerptSelection(from_ns, to_ns, of_steps, sample))

    def perfetto(self, rank: int | None = None) -> "TraceProcessor":
        """Opens a rank's trace file in the trace processor, for PerfettoSQL.

        `ts` is the same as in the database. The trace processor numbers processes and threads in
        its own way; their names are those of the file. Close it when done, or use `with`.

        Args:
            rank: the lowest by default.

        Raises:
            TraceNotFound: no such rank, or its file was moved or changed after it was loaded.
        """
        from traceql.present.ui.trace_file import trace_file, trace_processor_input
        from traceql.readers.trace_processor import open_trace_processor

        converted = trace_processor_input(self, rank)
        return open_trace_processor(trace_file(self, rank)[0] if converted is None else converted)

    def close(self) -> None:
        if self._con is not None:
            self._con.close()
        super().close()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _INTERNAL]

    def __repr__(self) -> str:
        try:
            size = self.select(_SIZE)[0]
        except QueryInvalid:
            return f"<Run {self.path}, closed>"
        devices = f" of {size['devices']}" if size["devices"] else ""
        ranks = "1 rank" if size["ranks"] == 1 else f"{size['ranks']} ranks"
        counts = f"{ranks}{devices}, {size['steps']:,} steps"
        return f"<Run {self.path}: {counts}, {size['kernels']:,} kernels>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.findings._repr_html_()}"


class Finding(NamedTuple):
    """A cause of lost time.

    Attributes:
        number: from 1, severe ones first.
        severity: severe, notable or remark.
        cause: id of the cause, as in table reference.cause.
        headline: what happens.
        evidence: sentences with numbers.
        remedy: a line to paste.
        saving_ns: what a step would be shorter without it; None if that is not known.
        gain_pct: gain in throughput, percent; None if the saving is time.
        unknowns: what was not measured; None if nothing is missing.
        query: the query that shows it.
        parameters: of that query.
    """

    number: int
    severity: str
    cause: str
    headline: str
    evidence: list[str]
    remedy: str
    saving_ns: int | None
    gain_pct: float | None
    unknowns: str | None
    query: str
    parameters: dict[str, str]


class Findings(Sequence[Finding]):
    """The findings of a run; they print and display as text."""

    def __init__(self, rows: Result, run: Run) -> None:
        self._rows, self._run = rows, run
        self._all = [
            Finding(
                number=row["rank_order"],
                **{name: row[name] for name in Finding._fields if name in row},
            )
            for row in rows
        ]

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, number: Any) -> Any:
        return self._all[number]

    def df(self) -> "pd.DataFrame":
        """One row per finding, with all columns of the query overview.findings."""
        return self._rows.df()

    def __repr__(self) -> str:
        findings = (
            "\n   ".join([f"{one.number}. {one.severity}: {one.headline}", *map(" ".join, details)])
            for one, details in self._detailed()
        )
        return "\n".join(findings) or self._nothing()

    def _repr_html_(self) -> str:
        items = "".join(
            f"<li><b>{escape(one.severity)}</b>: {escape(one.headline)}<ul>"
            + "".join(f"<li>{word}: {escape(text)}</li>" for word, text in details)
            + "</ul></li>"
            for one, details in self._detailed()
        )
        return f"<ol>{items}</ol>" if items else f"<p>{escape(self._nothing())}</p>"

    def _detailed(self) -> Iterator[tuple[Finding, list[tuple[str, str]]]]:
        """Each finding with its evidence, saving and remedy, and the call that shows it."""
        for one, row in zip(self._all, self._rows, strict=True):
            given = "".join(f", {name}={value!r}" for name, value in one.parameters.items())
            details = [("seen", text) for text in one.evidence]
            if text := saving(row):
                details.append(("save", text))
            details.append(("try", one.remedy))
            if one.unknowns:
                details.append(("unknown", one.unknowns))
            yield one, [*details, ("see", f'run.query("{one.query}"{given})')]

    def _nothing(self) -> str:
        is_timeline = bool(len(self._run.select("FROM trace LIMIT 1")))
        return f"no findings: {nothing_found(is_timeline)}"


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: str  # as DuckDB names it
    comment: str  # what it is, and its unit


class Table:
    """A public table; it displays its columns.

    Attributes:
        name: its name in SQL.
        comment: what a row is.
        columns: in their order.
    """

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        definition = public_tables()[name]
        self.name, self.comment = name, definition.summary
        self.columns = tuple(Column(one.name, one.type, one.text) for one in definition.columns)

    def read(self) -> Result:
        """All rows."""
        return self._run.sql(f"FROM {self.name}")

    def df(self) -> "pd.DataFrame":
        """All rows as a pandas DataFrame."""
        return self.read().df()

    def __len__(self) -> int:
        return int(self._run.sql(f"SELECT COUNT(*) AS rows FROM {self.name}")[0]["rows"])

    def __repr__(self) -> str:
        columns = (f"  {one.name} {one.type}: {one.comment}" for one in self.columns)
        return "\n".join([f"{self.name}: {self.comment}", *columns])

    def _repr_html_(self) -> str:
        return _listed_html(
            f"{self.name}: {self.comment}",
            ((f"{one.name} {one.type}", one.comment) for one in self.columns),
        )


class Tables(Mapping[str, Table]):
    """The public tables of a run by name, in the order of the alphabet."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Table:
        if name not in public_tables():
            hint = suggestion(name, public_tables()) or f"there are {', '.join(public_tables())}"
            raise KeyError(f"no table '{name}'; {hint}")
        return Table(self._run, name)

    def __iter__(self) -> Iterator[str]:
        return iter(public_tables())

    def __len__(self) -> int:
        return len(public_tables())

    def __repr__(self) -> str:
        return "\n".join(f"{one.name}: {one.summary}" for one in public_tables().values())

    def _repr_html_(self) -> str:
        tables = public_tables().values()
        return _listed_html("", ((one.name, one.summary) for one in tables))


def _listed_html(title: str, lines: Iterator[tuple[str, str]]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(text)}</td></tr>"
        for name, text in lines
    )
    return f"<p>{escape(title)}</p><table>{rows}</table>"


def open_run(
    path: str | Path,
    *paths: str | Path,
    queries: Sequence[str | Path] = (),
    trace_processor: str | Path | None = None,
) -> Run:
    """Opens a database, or loads trace files and folders first.

    A database that is loaded this way is kept in the cache folder, so that opening the same traces
    again is fast.

    Args:
        path: a database, a trace file or a folder of traces.
        *paths: more trace files or folders of the same run.
        queries: folders with your own queries.
        trace_processor: a native trace_processor_shell to load with.

    Raises:
        TraceqlError: the path does not exist or cannot be loaded.
    """
    return Run(database_of(path, *paths, trace_processor=trace_processor), queries=queries)
