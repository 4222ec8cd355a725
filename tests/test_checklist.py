"""The checklist of a run: each item says what it saw, and advises only if it saw it."""

import json
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import output
from derived import Tables, database, insert

import traceql
from traceql.plan.advise.tables import checklist, items

ITEMS = {
    "all-reduce algorithm", "attention backend", "batch against capture sizes",
    "communication share", "CUDA graphs", "GPU busy share", "KV cache use", "NCCL version",
    "prefix cache", "throttling",
}  # fmt: skip

Row = dict[str, Any]


def checked(path: Path) -> dict[str, Row]:
    with traceql.Trace(path) as trace:
        return {row["item"]: row for row in checklist(trace)}


def item(tables: Tables, name: str) -> Row:
    """The row of one item."""
    query = items()[name]
    found = tables.execute(query.sql).fetchall()
    assert len(found) == 1
    columns = [column.name for column in query.head.columns]
    return dict(zip(columns, found[0], strict=True))


@pytest.mark.slow
def test_run_with_what_vllm_reported_has_every_item() -> None:
    found = checked(databases.trace(databases.BATCH16).path)
    assert found.keys() == ITEMS
    assert found["CUDA graphs"]["evidence"] == "24 of 24 decode steps replayed graphs"
    assert "vLLM custom" in found["all-reduce algorithm"]["evidence"]
    assert found["attention backend"]["evidence"].startswith("FlashAttention 3 takes most of")
    assert found["NCCL version"]["evidence"] == "NCCL 2.28.9"
    # steps.jsonl: 16 requests of 512 tokens and at most 10 tokens more; run.json: the room.
    assert found["KV cache use"]["evidence"] == "at most 8,340 of 1,601,248 tokens, 1%"
    assert found["prefix cache"]["evidence"] == "off"
    assert found["prefix cache"]["state"] == "look"
    assert "captured up to 64; 0 of 24 beyond" in (found["batch against capture sizes"]["evidence"])


def test_trace_alone_leaves_unknown_what_only_the_engine_records() -> None:
    found = checked(databases.trace("qwen3-32b-tp4-graph-nccl").path)
    unknown = {name for name, row in found.items() if row["state"] == "unknown"}
    assert unknown == {
        "batch against capture sizes", "KV cache use", "NCCL version", "prefix cache", "throttling",
    }  # fmt: skip
    assert found["all-reduce algorithm"]["state"] == "look"
    assert "NCCL 2,580" in found["all-reduce algorithm"]["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("name", items())
def test_nothing_recorded_is_unknown_and_says_why(name: str) -> None:
    row = item(database(), name)
    assert row["state"] == "unknown"
    assert row["evidence"]
    assert row["advice"] is None


def test_library_that_is_not_the_installed_one_is_worth_a_look() -> None:
    tables = database()
    versions = {"nccl": "2.21.5", "nvidia-nccl-cu13": "2.28.9"}
    run = {"path": "/run", "document": json.dumps({"versions": versions})}
    insert(tables, "run_file", run)
    row = item(tables, "nccl_version")
    assert row["state"] == "look"
    assert row["evidence"].startswith("NCCL 2.21.5, but 2.28.9 is installed")


@pytest.mark.slow
def test_command_shows_the_items_that_are_worth_a_look_first() -> None:
    path = databases.trace(databases.BATCH16).path
    found = json.loads(output("advise", path, "--format", "json"))
    assert {row["item"] for row in found} == ITEMS
    order = ["look", "unknown", "ok"]
    states = [row["state"] for row in found]
    assert states == sorted(states, key=order.index)
    assert "24 of 24 decode steps" in output("advise", path)
