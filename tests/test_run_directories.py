"""Run directories with odd paths and damaged files: what is known is kept, the rest reported."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import refusal
from recorded_runs import run_directory

import traceql
from traceql.database.loading.discovery import NAMES, paths_beside

pytestmark = pytest.mark.slow

Damage = Callable[[Path], object]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_directory(tmp_path / "run")


def loaded(run: Path) -> traceql.Run:
    return traceql.open(traceql.load(run, run.with_name("run.duckdb")).database)


def values(trace: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql)]


def failed_checks(trace: traceql.Run) -> dict[str, tuple[int | None, int | None, str]]:
    """The failed checks: value, total and note of each."""
    rows = trace.query("quality.ledger", failed=True).rows()
    return {row["check_name"]: (row["value"], row["total"], row["note"]) for row in rows}


def changed(file: Path, **facts: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


ROWS = """
    SELECT
        (SELECT COUNT(*) FROM request), (SELECT COUNT(*) FROM request_step),
        (SELECT COUNT(*) FROM telemetry)
"""
# Requests a and b; a in both steps, b in one; three samples.
WHOLE = (2, 3, 3)


# --- paths -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run[1]", "run*", "it's", 'a"b', "a\nb"])
def test_the_path_of_a_run_directory_is_never_a_pattern(name: str, tmp_path: Path) -> None:
    own = run_directory(tmp_path / name)
    for other in ("run1", "run2"):
        shutil.copytree(own, tmp_path / other)
    target = tmp_path / 'it\'s a "run".duckdb'
    with traceql.open(traceql.load(own, target).database) as trace:
        assert values(trace, ROWS) == [WHOLE]
        assert values(trace, "SELECT run FROM run") == [(str(own),)]
        assert failed_checks(trace) == {}


def test_the_named_run_directory_wins_over_that_of_linked_traces(run: Path, tmp_path: Path) -> None:
    other = run_directory(tmp_path / "other")
    changed(other / "run.json", model="another")
    (other / "steps.jsonl").unlink()
    shutil.rmtree(run / "traces")
    (run / "traces").symlink_to(other / "traces")
    paths = [run, run / "traces" / "rank0.pt.trace.json", other]  # each file once
    with traceql.open(traceql.load(paths, tmp_path / "x.duckdb").database) as trace:
        assert values(trace, "SELECT run, model FROM run") == [(str(run), "m")]
        assert values(trace, ROWS) == [WHOLE]


def test_a_path_that_is_not_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "cafe").rename(tmp_path / os.fsdecode(b"caf\xe9"))
    said = refusal("load", run, "-o", tmp_path / "x.duckdb")
    assert r"caf\xe9/traces/rank0.pt.trace.json: the path is not UTF-8; rename it" in said
    assert not (tmp_path / "x.duckdb").exists()


# --- run.json --------------------------------------------------------------------------------


def rank(**facts: Any) -> dict[str, Any]:
    return {"rank": 0, "trace": "traces/rank0.pt.trace.json", **facts}


PLACES: dict[str, tuple[dict[str, Any], str]] = {
    "ranks that are no list": ({"ranks": 5}, "`$.ranks`"),
    "a rank that is no object": ({"ranks": [1]}, "`$.ranks[0]`"),
    "an entry without a rank": ({"ranks": [{"trace": "x"}]}, "field `rank` - at `$.ranks[0]`"),
    "a negative rank": ({"ranks": [rank(rank=-1)]}, "Expected `int` >= 0 - at `$.ranks[0].rank`"),
    "a rank beyond 32 bits": ({"ranks": [rank(rank=2**31)]}, "at `$.ranks[0].rank`"),
    "a stage in words": ({"ranks": [rank(pp_rank="a")]}, "at `$.ranks[0].pp_rank`"),
    "two entries for a trace": (
        {"ranks": [rank(), rank(rank=1)]}, "$.ranks have the trace traces/rank0.pt.trace.json",
    ),
    "two entries for a rank": ({"ranks": [rank(), rank(trace="x")]}, "$.ranks are rank 0"),
    "a world size in words": ({"parallel": {"world_size": "x"}}, "at `$.parallel.world_size`"),
    "a newer version": ({"schema_version": 2}, "newer version of traceql; update traceql"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_what_places_ranks_is_not_guessed(name: str, run: Path) -> None:
    facts, reason = PLACES[name]
    changed(run / "run.json", **facts)
    said = refusal("load", run, "-o", run.with_name("x.duckdb"))
    assert f"{run}/run.json" in said
    assert reason in said
    assert not run.with_name("x.duckdb").exists()


def pipe_instead(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def text_instead(text: str | bytes) -> Damage:
    return lambda file: file.write_bytes(text if isinstance(text, bytes) else text.encode())


_DEEP = '{"schema_version": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
NO_JSON: dict[str, tuple[Damage, str]] = {
    "empty": (text_instead(""), "empty file"),
    "torn": (text_instead('{"schema_version": 1, "sta'), "not JSON"),
    "not UTF-8": (text_instead(b'{"schema_version": 1, "model": "\xff"}'), "byte 32 is not UTF-8"),
    "nested too deeply": (text_instead(_DEEP), "nested too deeply"),
    "a number of 5000 digits": (
        text_instead('{"schema_version": 1, "x": %s}' % ("9" * 5000)),
        "a number has thousands of digits",
    ),
    "a key twice": (
        text_instead('{"schema_version": 1, "x": [{"rank": 0, "rank": 1}]}'),
        'an object has the key "rank" twice',
    ),
    "half a surrogate pair": (
        text_instead('{"schema_version": 1, "x": ["\\uD800"]}'),
        "not JSON: half of a surrogate pair",
    ),
    "a pipe": (pipe_instead, "not a regular file"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_JSON)
def test_a_run_json_that_cannot_be_read_is_refused(name: str, run: Path) -> None:
    damage, reason = NO_JSON[name]
    damage(run / "run.json")
    said = refusal("load", run, "-o", run.with_name("x.duckdb"))
    assert f"cannot read {run}/run.json: {reason}" in said
    assert said.endswith("correct it, or move it away to load only the traces")


def test_a_run_json_of_another_program_is_left_alone(run: Path) -> None:
    """Without it, both traces say that they are rank 0, so only one is loaded here."""
    (run / "traces" / "rank1.pt.trace.json").unlink()
    (run / "run.json").write_text('{"ranks": 5}')
    with loaded(run) as trace:
        assert values(trace, "SELECT rank, world_size FROM trace") == [(0, 1)]
        assert values(trace, "FROM run_file") == []


def test_every_file_that_is_read_beside_traces_is_in_the_list(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache knows by this list when a database is stale."""
    for name in ("peaks.json", "config.json", "graph_nodes.json"):
        (run / name).write_text("{}")
    looked = set()

    def noted(method: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def look(path: Path) -> Any:
            looked.add(path)
            return method(path)

        return look

    for name in ("read_bytes", "exists"):
        monkeypatch.setattr(Path, name, noted(getattr(Path, name)))
    loaded(run).close()
    files = [run / "traces" / f"rank{n}.pt.trace.json" for n in (0, 1)]
    beside = {path for path in looked if path.parent in (run, run / "traces")}
    assert beside - set(files) <= set(paths_beside(files))
    assert {path.name for path in beside - set(files)} == set(NAMES)


def test_an_odd_fact_is_unknown_and_reported(run: Path) -> None:
    window = {"begin_unix_ns": 1_000_000_000, "end_unix_ns": "late"}
    changed(run / "run.json", model=["m"], window=window)
    with loaded(run) as trace:
        facts = "SELECT model, window_ts, window_dur, kind FROM run"
        assert values(trace, facts) == [(None, 0, None, "vllm-offline")]
        assert list(failed_checks(trace)) == ["run.json"]
        assert "`$.model`" in failed_checks(trace)["run.json"][2]
        assert values(trace, ROWS) == [WHOLE]


# --- files that a run can do without ---------------------------------------------------------


@pytest.mark.parametrize("name", NO_JSON)
def test_unreadable_metrics_cost_only_the_requests(name: str, run: Path) -> None:
    damage, reason = NO_JSON[name]
    damage(run / "metrics.json")
    with loaded(run) as trace:
        ((check, (value, total, note)),) = failed_checks(trace).items()
        assert (check, value, total) == ("metrics.json", None, None)
        assert note.startswith(f"not loaded: {reason}")
        assert values(trace, ROWS) == [(0, *WHOLE[1:])]
        assert trace.query("serving.latency").rows() == []


STEP = {"rank": 0, "number": 2, "begin_unix_ns": 1, "requests": {"a": 1}}
LINES: dict[bytes, str] = {
    b'{"rank": 0, "numb': "line 2: Input data was truncated",
    b'{"rank": 0, "number": 2, "requests": {"\xff": 1}}': "line 2: ",
    json.dumps(STEP | {"requests": {"a": None}}).encode(): "line 2: Expected `int`",
    json.dumps(STEP | {"requests": {"a": 2**70}}).encode(): "line 2: ",
    b'{"rank": 0}': "line 2: Object missing required field `number`",
    _DEEP.encode(): "line 2: ",
    json.dumps(STEP | {"number": 0}).encode(): "line 2: step 0 of rank 0 again",
}


@pytest.mark.parametrize(("line", "reason"), LINES.items(), ids=range(len(LINES)))
@pytest.mark.parametrize("is_last", [True, False])
def test_a_damaged_line_costs_one_step(line: bytes, reason: str, is_last: bool, run: Path) -> None:
    file = run / "steps.jsonl"
    first, second = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([first, line] if is_last else [first, line, second, b""]))
    with loaded(run) as trace:
        ((check, (value, total, note)),) = failed_checks(trace).items()
        read = 1 if is_last else 2
        assert (check, value, total) == ("steps.jsonl", read, read + 1)
        assert reason in note
        steps = values(trace, "SELECT number, requests FROM run_iteration ORDER BY number")
        assert steps == [(0, {"a": 8}), (1, {"a": 1, "b": 4})][:read]


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"a": -1}, "Expected `int` >= 0"),
        ({"a": 2**70}, "Expected `int` <= "),
        ([8], "Expected `object | null`, got `array`"),
    ],
)
def test_odd_computed_tokens_cost_only_themselves(odd: Any, reason: str, run: Path) -> None:
    file = run / "steps.jsonl"
    first, second = map(json.loads, file.read_text().splitlines())
    lines = [first | {"computed": odd}, second | {"computed": {"a": 4, "b": 0, "of no request": 1}}]
    file.write_text("\n".join(map(json.dumps, lines)))
    with loaded(run) as trace:
        ((check, (value, total, note)),) = failed_checks(trace).items()
        assert (check, value, total) == ("steps.jsonl", 1, 2)
        assert "line 1: computed: " in note
        assert reason in note
        steps = values(trace, "SELECT requests, computed FROM run_iteration ORDER BY number")
        assert steps == [({"a": 8}, None), ({"a": 1, "b": 4}, lines[1]["computed"])]
        found = "SELECT request_id, tokens, computed_tokens FROM request_step WHERE step_id = 1"
        assert values(trace, found) == [("a", 1, 4), ("b", 4, 0)]
        kept = "SELECT step_id, context_kv_tokens, generation_kv_tokens FROM step_tokens"
        # The trace of rank 1 has two steps too, of which steps.jsonl says nothing.
        assert values(trace, kept) == [
            (0, None, None), (1, 4, 5), (2, None, None), (3, None, None),
        ]  # fmt: skip


def with_column(name: str, column: pa.Array | None) -> Damage:
    def write(file: Path) -> None:
        table = pq.read_table(file)
        others = table.drop_columns([name])
        pq.write_table(others if column is None else others.append_column(name, column), file)

    return write


TELEMETRY: dict[str, tuple[Damage, str]] = {
    "text": (text_instead("hello, this is no table"), "magic bytes not found"),
    "empty": (text_instead(""), "0 bytes"),
    "a column less": (with_column("gpu", None), "not one column gpu"),
    "a column of text": (with_column("unix_ns", pa.array(["1"] * 3)), "unix_ns is string"),
    "numbers beyond 64 bits": (
        with_column("power_mw", pa.array([2**64 - 1] * 3, pa.uint64())), "18446744073709551615",
    ),
    "times that cannot be": (
        with_column("unix_ns", pa.array([1, -(2**63), 2])), "unix_ns has a number of more than 62",
    ),
    "a pipe": (pipe_instead, "not a regular file"),
}  # fmt: skip


@pytest.mark.parametrize("name", TELEMETRY)
def test_damaged_telemetry_costs_only_itself(name: str, run: Path) -> None:
    damage, reason = TELEMETRY[name]
    damage(run / "telemetry.parquet")
    with loaded(run) as trace:
        ((check, (_, _, note)),) = failed_checks(trace).items()
        assert check == "telemetry.parquet"
        assert note.startswith("not loaded: ")
        assert reason in note
        assert values(trace, ROWS) == [(*WHOLE[:2], 0)]


# --- configurations and graph nodes ----------------------------------------------------------


@pytest.mark.parametrize("name", NO_JSON)
def test_a_model_configuration_that_cannot_be_read_is_refused(name: str, run: Path) -> None:
    damage, reason = NO_JSON[name]
    damage(run.with_name("config.json"))
    config, target = run.with_name("config.json"), run.with_name("x.duckdb")
    said = refusal("load", run, "--model-config", config, "-o", target)
    assert f"cannot read the model configuration {config}: {reason}" in said
    assert not target.exists()


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ({"0": {"07": "a.b"}}, "'07' of rank 0 is not the number of a graph node"),
        ({"0": {"7": 5}}, "Expected `str`, got `int`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_a_map_of_other_things_than_graph_nodes_is_refused(
    nodes: Any, reason: str, run: Path
) -> None:
    (run / "graph_nodes.json").write_text(json.dumps(nodes))
    said = refusal("load", run, "-o", run.with_name("x.duckdb"))
    assert f"{run}/graph_nodes.json is not a map of graph nodes: " in said
    assert reason in said
