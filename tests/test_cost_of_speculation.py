"""Costs of drafted tokens: Qwen3-8B on an H200, drafting three tokens a request with n-grams."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import traceql

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data"
LAYERS, HEADS, HEAD_DIM, HIDDEN, WORDS = 36, 32, 128, 4096, 151_936


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traceql.Trace]:
    file = tmp_path_factory.mktemp("speculation") / "run.duckdb"
    traceql.load([DATA / "speculation"], file, peaks=[DATA / "peaks-h200.json"])
    with traceql.Trace(file) as found:
        yield found


@pytest.fixture(scope="module")
def iterations() -> list[list[tuple[int, int]]]:
    """Of each iteration with requests: the tokens of each, and those computed before."""
    lines = (DATA / "speculation" / "steps.jsonl").read_text().splitlines()
    documents = [json.loads(line) for line in lines]
    return [
        [(tokens, of["computed"][request]) for request, tokens in of["requests"].items()]
        for of in documents
        if of["requests"]
    ]


def test_each_drafted_token_attends_to_all_before_it(
    trace: traceql.Trace, iterations: list[list[tuple[int, int]]]
) -> None:
    by_hand = [
        sum(
            4 * HEADS * HEAD_DIM * (computed + position + 1)
            for tokens, computed in requests
            for position in range(tokens)
        )
        for requests in iterations
    ]
    found = trace.sql("""
        SELECT layer, list(flops ORDER BY step_id) AS flops
        FROM cost
        WHERE role = 'attention'
        GROUP BY layer
    """).rows()
    assert len(found) == LAYERS
    assert all(row["flops"] == by_hand for row in found)


def test_all_drafted_tokens_have_logits(
    trace: traceql.Trace, iterations: list[list[tuple[int, int]]]
) -> None:
    """By the shapes of lm_head, whereas a prompt has logits for its last token alone."""
    found = trace.sql("""
        SELECT flops, source FROM cost WHERE role = 'lm_head' ORDER BY step_id
    """).rows()
    rows = [
        sum(tokens if computed >= 256 else 1 for tokens, computed in requests)
        for requests in iterations
    ]
    assert {row["source"] for row in found} == {"shapes"}
    assert [row["flops"] for row in found] == [2 * HIDDEN * WORDS * count for count in rows]
    counted = trace.sql("SELECT logit_rows AS n FROM step_tokens WHERE tokens > 0 ORDER BY step_id")
    assert [row["n"] for row in counted.rows()] == rows
