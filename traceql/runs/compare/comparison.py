"""A comparison of two groups of runs: its tables in an in-memory database, queries and SQL."""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from traceql.database.opening import attach_flat
from traceql.database.tables import complete_database, require_select, result
from traceql.database.terminology import Terminology, terminology
from traceql.errors import QueryInvalid, TraceqlError
from traceql.result import Result, as_html, display_in_notebook
from traceql.result.text_table.values import plain
from traceql.runs.compare.changes import Judge, table_of
from traceql.runs.compare.layers_and_kernels import layer_rows, unnamed_rows
from traceql.runs.compare.sentences import answers
from traceql.runs.compare.setup import Effect, differences
from traceql.runs.compare.sides import RESULTS, RunProfile, groups_of
from traceql.runs.compare.verdict import NOISE
from traceql.sql.query import Query, bound, queries_in, query_named
from traceql.util.arrow_duckdb import create_table
from traceql.util.resources import QUERIES
from traceql.util.text import format_count, printable, source_text

SIDES = ("base", "new")
_TABLES = Path(__file__).parent / "tables"
# In the order in which they need each other.
_STATEMENTS = (
    "grain", "stratum", "weight", "run_stratum", "scope", "run_value", "chosen_run", "typical",
    "waterfall", "total_run", "total", "coverage", "layer_value", "layer", "kernel_use", "lost",
    "latency",
)  # fmt: skip
_DOCUMENTED = (
    "coverage", "setup", "change", "cause", "waterfall", "stratum", "total", "lost", "layer",
    "layer_change", "kernel_use", "unnamed_kernel",
)  # fmt: skip
_SETUP = pa.schema({
    "name": "string", "title": "string", "effect": "string", "reason": "string",
    "base": pa.list_(pa.string()), "new": pa.list_(pa.string()),
})  # fmt: skip
_FACTS = "SELECT side, run, name, value FROM profile_fact ORDER BY ALL"
_ANSWER_COLUMNS = (
    "scope", "metric", "base", "new", "unit", "change_pct", "low_pct", "high_pct", "verdict",
    "reason",
)  # fmt: skip
_DIALECTS = """
    SELECT DISTINCT UNNEST(string_split(value, ', '))
    FROM profile_fact
    WHERE name = 'recorded.dialect'
"""
_RECORDINGS = """
    SELECT LIST(DISTINCT value ORDER BY value) FROM profile_fact
    WHERE name = 'trace.sha256'
    GROUP BY side
"""
_PHASES = "SELECT scope FROM scope WHERE scope <> 'all' ORDER BY position"


def diff_queries() -> dict[str, Query]:
    return queries_in(QUERIES / "diff")


class Comparison(AbstractContextManager["Comparison"]):
    """Two sides, each of one run or more, compared when the object is made.

    Args:
        base: the runs that are the reference.
        new: the runs that are compared with them.
        threshold: the smallest change that counts, relative.
        accept: names of differences of the set-up, or their prefixes up to a dot, that do not
            forbid a verdict; "all" for all of them.
    """

    def __init__(
        self,
        base: Sequence[RunProfile],
        new: Sequence[RunProfile],
        *,
        threshold: float = NOISE,
        accept: Collection[str] = (),
    ) -> None:
        if not 0 <= threshold < 1:
            raise TraceqlError(f"threshold is {threshold:g}; use a share from 0 to 1, such as 0.01")
        accepted = [accept] if isinstance(accept, str) else accept
        self.base, self.new = tuple(base), tuple(new)
        self.threshold = threshold
        self._con = duckdb.connect(config={"threads": 2})
        self._open_files = ExitStack()
        for side, runs in self._sides():
            if not runs:
                raise TraceqlError(f"{side} has no run")
        self._load()
        facts = self._con.execute(_FACTS).fetchall()
        self.differences = tuple(
            replace(one, title=self.terminology(one.title), reason=self.terminology(one.reason))
            for one in differences(facts, accepted=accepted)
        )
        for name in _STATEMENTS:
            self._make(name)
        self._judge = Judge(self._con, threshold=threshold, forbidden=self.forbidden)
        create_table(self._con, "change", self._judge.changes())
        self._make("cause")
        setup = [vars(one) | {"effect": str(one.effect)} for one in self.differences]
        create_table(self._con, "setup", table_of(setup, _SETUP))
        create_table(self._con, "layer_change", layer_rows(self._con))
        create_table(self._con, "unnamed_kernel", unnamed_rows(self._con))

    @cached_property
    def terminology(self) -> Terminology:
        return terminology([dialect for (dialect,) in self._con.execute(_DIALECTS).fetchall()])

    @cached_property
    def queries(self) -> dict[str, Query]:
        """The queries of the folder queries/diff, with heads in the terminology of both sides."""
        return self.terminology.queries(diff_queries())

    @property
    def forbidden(self) -> str:
        """Why no verdict is possible; empty if one is."""
        titles = [one.title for one in self.differences if one.effect is Effect.FORBIDS]
        return f"other {', '.join(dict.fromkeys(titles))}" if titles else ""

    @property
    def same_recordings(self) -> bool:
        """Whether both sides are of the same trace files."""
        sides = [hashes for (hashes,) in self._con.execute(_RECORDINGS).fetchall()]
        return len(sides) == 2 and sides[0] == sides[1]

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """The phases that are compared, the one that takes most of base's time first."""
        return tuple(phase for (phase,) in self._con.execute(_PHASES).fetchall())

    def query(self, name: str, /, **parameters: Any) -> Result:
        """Runs a query of the folder queries/diff, e.g. `comparison.query("waterfall")`.

        Raises:
            QueryNotFound: no such query; the message suggests the closest name.
            QueryInvalid: an unknown parameter, or a value that is not allowed; or the query reads
                the database of a side that is a baseline.
        """
        query = query_named(name, self.queries, listed_by="traceql diff --query list")
        if missing := [side for side in query.head.reads if side not in self._databases]:
            raise QueryInvalid(
                f"{name} reads the database of {missing[0]}, which a baseline does not contain; "
                "compare with the run itself"
            )
        return result(self._con, query.sql, bound(query, parameters), query.head.chart)

    run = query  # the earlier name, for one release

    def sql(self, sql: str, parameters: dict[str, Any] | None = None) -> Result:
        """Runs one statement over the tables of the comparison, and those of the databases.

        `base.kernel` is the table kernel of the first run of base, `base_2.kernel` that of the
        second one; the same with new. Raises QueryInvalid with DuckDB's message in one line.
        """
        require_select(sql, what="a comparison")
        self._databases  # noqa: B018 (attaches them)
        return result(self._con, sql, parameters or {})

    def table(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        return result(self._con, sql, parameters).rows()

    def together(self, scope: str, roles: Sequence[str]) -> dict[str, Any] | None:
        return self._judge.together(scope, roles)

    def df(self) -> "Any":
        """The answer as a pandas DataFrame: step times, latencies and throughput with verdicts."""
        return self.query("answer").df()

    def chart(self, scope: str | None = None, *, width: int = 720) -> "Any":
        """The waterfall of the difference, as an Altair chart."""
        return self.query("waterfall", scope=scope).chart(width=width)

    def _ipython_display_(self) -> None:
        """Shows the answer as sentences and rows, and the waterfall as a chart."""
        display_in_notebook(self._outputs())

    def _repr_html_(self) -> str:
        """The same as one document, for programs other than Jupyter."""
        return as_html(self._outputs())

    def _outputs(self) -> Iterator[dict[str, str]]:
        texts = [printable(sentence.text) for sentence in answers(self)]
        html = "".join(f"<p>{escape(text)}</p>" for text in texts)
        yield {"text/html": html, "text/plain": "\n".join(texts)}
        yield from Result(self.query("answer").select(list(_ANSWER_COLUMNS)).arrow()).outputs()
        waterfall = self.query("waterfall")
        if waterfall.can_be_drawn:
            yield from islice(waterfall.outputs(), 1)

    def __repr__(self) -> str:
        counts = [format_count(len(runs), "run") for _, runs in self._sides()]
        return f"<Comparison: {' with '.join(counts)}>"

    def close(self) -> None:
        self._con.close()
        self._open_files.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def document(self) -> str:
        """The answers, the runs and all tables as JSON; NULL is null, times are ns."""
        document: dict[str, Any] = {
            "answers": [{"verdict": str(one.verdict), "text": one.text} for one in answers(self)],
            "runs": {side: [run.name for run in runs] for side, runs in self._sides()},
            "threshold_pct": 100 * self.threshold,
            "not_comparable": self.forbidden or None,
        }
        for name in _DOCUMENTED:
            document[name] = plain(self.table(f"SELECT * FROM {name}"))
        return json.dumps(document, indent=1, allow_nan=False)

    def _sides(self) -> Iterator[tuple[str, tuple[RunProfile, ...]]]:
        return zip(SIDES, (self.base, self.new), strict=True)

    def _load(self) -> None:
        runs = [(side, *run) for side, of_side in self._sides() for run in enumerate(of_side)]
        for name in RESULTS:
            for place, (_, _, run) in enumerate(runs):
                self._con.register(f"run_{place}", run.profile[name])
            rows = " UNION ALL BY NAME ".join(
                f"SELECT *, '{side}' AS side, {number}::BIGINT AS run FROM run_{place}"
                for place, (side, number, _) in enumerate(runs)
            )
            self._con.execute(f"CREATE TABLE profile_{name} AS {rows}")
            for place in range(len(runs)):
                self._con.unregister(f"run_{place}")

    def _make(self, name: str) -> None:
        self._con.execute(f"CREATE TABLE {name} AS {source_text(_TABLES / f'{name}.sql')}")

    @cached_property
    def _databases(self) -> tuple[str, ...]:
        """The attached databases: base, base_2, ..., new, ...; no other file can be read then."""
        databases = {
            side if number == 1 else f"{side}_{number}": run.database.resolve()
            for side, runs in self._sides()
            for number, run in enumerate(runs, start=1)
            if run.database is not None
        }
        for database in dict.fromkeys(databases.values()):
            own = [name for name, one in databases.items() if one == database]
            file = self._open_files.enter_context(complete_database(database))
            attach_flat(self._con, file, *own)
        self._con.execute("SET enable_external_access = false")
        self._con.execute("SET lock_configuration = true")
        return tuple(databases)


def diff(
    base: str | Path | Sequence[str | Path],
    new: str | Path | Sequence[str | Path],
    *,
    threshold: float = NOISE,
    accept: Collection[str] = (),
) -> Comparison:
    """Compares two runs, or two groups of repeats.

    Args:
        base: a database, run directory, folder of traces, trace or baseline; or several repeats.
            A folder with databases or run directories holds a repeat for each.
        new: the same for the other side.
        threshold: the smallest change that counts, relative.
        accept: names of differences of the set-up (Difference.name), or their prefixes up to a
            dot, that do not forbid a verdict; "all" for all of them.

    Raises:
        TraceqlError: a path does not exist or cannot be read.
    """
    sides = [[one] if isinstance(one, str | Path) else list(one) for one in (base, new)]
    return Comparison(*groups_of(sides), threshold=threshold, accept=accept)
