"""Every canned query: its head says what its SQL does, and it runs on whatever was loaded."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import databases
import duckdb
import pytest
import traces

import traceql
from traceql.analysis.classification.rules import CATEGORIES
from traceql.errors import QueryInvalid
from traceql.sql.query import Query, bound, catalog
from traceql.util.resources import QUERIES

FILES = sorted(QUERIES.glob("*.sql"))
OF_COMPARISONS = sorted((QUERIES / "diff").glob("*.sql"))
OF_EXPERIMENTS = sorted((QUERIES / "experiment").glob("*.sql"))  # test_experiment_answers runs them
EVERY = FILES + OF_COMPARISONS
OF_FLEET = sorted((QUERIES / "fleet").glob("*.sql"))  # test_fleet runs them
DESCRIBED = EVERY + OF_EXPERIMENTS + OF_FLEET
Asked = Callable[[Path], traceql.Trace | traceql.Comparison]


def each(files: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("file", files, ids=lambda f: f"{f.parent.name}/{f.stem}")


def on(*quick: str) -> pytest.MarkDecorator:
    """Runs a test on every database; it is quick on these."""
    names = ("4 ranks", "no events", "1 rank", "no kernels")
    listed = [pytest.param(n, marks=[] if n in quick else [pytest.mark.slow]) for n in names]
    return pytest.mark.parametrize("trace", listed, indirect=True, scope="module")


@pytest.fixture(scope="module")
def trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[traceql.Trace]:
    folder = tmp_path_factory.mktemp("queries")
    events = [traces.host("aten::mm", ts=1, dur=2)]
    database = {
        "1 rank": lambda: databases.trace("qwen3-8b-tp1-graph").path,
        "4 ranks": lambda: databases.trace("qwen3-32b-tp4-graph-nccl").path,
        "no kernels": lambda: loaded(folder, *events),
        "no events": lambda: loaded(folder),
    }[request.param]()
    with traceql.Trace(database) as opened:
        yield opened


@pytest.fixture(scope="module")
def asked(trace: traceql.Trace) -> Iterator[Asked]:
    """What a file's query asks: the trace, or a comparison of two runs, of which it is the second.

    Without events, both are empty.
    """
    whole = bool(trace.sql("FROM kernel LIMIT 1").rows())
    base = databases.trace("qwen3-8b-tp1-graph").path if whole else trace.path
    with traceql.diff(base, trace.path) as comparison:
        yield lambda file: comparison if file in OF_COMPARISONS else trace


def loaded(folder: Path, *events: traces.Event) -> Path:
    file = traces.write(folder / "a.json", *events)
    return traceql.load(file, folder / "a.duckdb", complete=True).database


def arguments(query: Query) -> list[dict[str, Any]]:
    """The defaults, and each allowed value of each parameter."""
    return [{}] + [
        {parameter.name: value} for parameter in query.head.parameters for value in parameter.values
    ]


@on("no events")
@each(EVERY)
def test_head_describes_the_statement(file: Path, asked: Asked) -> None:
    query = Query(file)
    (statement,) = duckdb.extract_statements(query.sql)
    assert statement.type == duckdb.StatementType.SELECT
    assert statement.named_parameters == {p.name for p in query.head.parameters}
    runs = asked(file)
    describe = runs.select if isinstance(runs, traceql.Trace) else runs.sql
    described = describe(f"DESCRIBE {query.sql}", bound(query, {}))
    assert [(row["column_name"], row["column_type"]) for row in described] == [
        (column.name, column.type) for column in query.head.columns
    ]


@pytest.mark.slow
@on("4 ranks")
@each(EVERY)
def test_query_runs_with_every_allowed_value(file: Path, asked: Asked) -> None:
    # A Trace has no access to other files, so a query that runs needs none.
    query = Query(file)
    columns = [column.name for column in query.head.columns]
    for given in arguments(query):
        assert asked(file).run(query.name, **given).columns == columns


@pytest.mark.slow
@on("4 ranks", "no events")
@each(EVERY)
def test_chart_can_be_drawn(file: Path, asked: Asked) -> None:
    query = Query(file)
    if query.head.chart is None:
        pytest.skip("no chart")
    result = asked(file).run(query.name)
    if not result.can_be_drawn:
        assert not any(all(v is not None for v in row.values()) for row in result)
        with pytest.raises(QueryInvalid, match="nothing to draw"):
            result.chart()
        return
    spec = result.chart().to_dict()
    for layer in spec.get("layer", [spec]):
        assert {"mark", "encoding"} <= layer.keys()
    drawn = max(spec["datasets"].values(), key=len)  # others are lines across the chart
    assert bool(drawn) >= any(all(v is not None for v in row.values()) for row in result)
    columns = query.head.chart.channels["x"].split(",")
    assert len(drawn) <= min(5_000, len(result) * len(columns))


@each(DESCRIBED)
def test_chart_shows_columns(file: Path) -> None:
    head = Query(file).head
    if head.chart is None:
        assert "-- @chart  none" in file.read_text(encoding="utf-8")
        return
    shown = {column for channel in head.chart.channels.values() for column in channel.split(",")}
    assert shown <= {column.name for column in head.columns}
    assert head.chart.title


@each(DESCRIBED)
def test_head_has_a_sentence_first_units_and_why_there_may_be_no_rows(file: Path) -> None:
    head = Query(file).head
    assert head.summary.startswith("One row per ")
    assert head.summary.endswith(".")
    assert head.empty
    assert not head.empty.endswith(".")  # it is printed after "no rows: "
    for column in head.columns:
        assert column.text.endswith(".")
        if column.name.endswith("_ns") or column.name in ("ts", "dur"):
            assert ", ns" in column.text
        if column.name.endswith("_pct"):
            assert "percent" in column.text.lower()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("category", CATEGORIES),
        ("phase", {"prefill", "decode", "mixed", "idle"}),
        ("cause", {"sync", "host", "dependency", "launch", "not recorded", "unknown"}),
    ],
)
def test_allowed_values_are_those_of_the_column(name: str, values: set[str]) -> None:
    offered = {p.values for q in catalog().values() for p in q.head.parameters if p.name == name}
    assert [set(o) for o in offered] == [values]


@on("4 ranks", "no events")
def test_filters_leave_the_rows_that_they_name(trace: traceql.Trace) -> None:
    every = trace.run("kernels.by_category").rows()
    assert sum(row["calls"] for row in every) == len(trace.sql("FROM kernel"))
    for row in every:
        kernels = trace.run("kernels.top", category=row["category"], limit=1_000_000).rows()
        assert {kernel["category"] for kernel in kernels} == {row["category"]}
        assert sum(kernel["total_ns"] for kernel in kernels) == row["total_ns"]
        assert len(kernels) == row["kernels"]
    of_ranks = [trace.run("kernels.by_category", rank=r["rank"]) for r in trace.run("overview.run")]
    assert sum(r["total_ns"] for rows in of_ranks for r in rows) == sum(
        row["total_ns"] for row in every
    )


@on("4 ranks", "no events")
def test_whole_numbers_are_64_bits_wide(trace: traceql.Trace) -> None:
    wide = trace.sql("FROM duckdb_columns() WHERE data_type = 'HUGEINT' AND NOT internal")
    assert wide.rows() == []
