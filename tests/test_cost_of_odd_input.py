"""Table cost where something is unknown: the rest is kept, and what is missing is said."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from recordings import recordings

import traceql

pytestmark = pytest.mark.slow

PRODUCTS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
_VOCABULARY = {"vocab_size": 151_936, "dtype": "bfloat16"}


def loaded(
    folder: Path, name: str, change: dict[str, Any] | None = None, **facts: Any
) -> traceql.Run:
    """A recording with its model's configuration, changed; and with facts of its file changed."""
    recording = next(one for one in recordings() if one.name == name)
    trace = json.loads(gzip.decompress(recording.path.read_bytes())) | facts
    path = folder / "trace.json"
    path.write_text(json.dumps(trace))
    config = folder / "config.json"
    config.write_text(json.dumps(recording.config | _VOCABULARY | (change or {})))
    return traceql.open(traceql.load([path], folder / "r.duckdb", model_config=config).database)


def missing(trace: traceql.Run, *roles: str, column: str = "flops") -> set[tuple[Any, ...]]:
    """What is missing for these roles, and whether a column has a value."""
    query = f"""
        SELECT DISTINCT missing, {column} IS NOT NULL AS known
        FROM cost
        WHERE list_contains($roles, role)
    """
    return {tuple(row.values()) for row in trace.select(query, {"roles": list(roles)}).rows()}


def test_narrow_kernels_of_a_configuration_of_wide_weights(tmp_path: Path) -> None:
    """An fp8 model whose config.json does not say so: FLOPs are known, bytes and peak are not."""
    said = "quantization, which the model configuration does not state"
    with loaded(tmp_path, "qwen3_fp8-graph") as trace:
        assert missing(trace, *PRODUCTS) == {(said, True)}
        assert missing(trace, *PRODUCTS, column="hbm_bytes") == {(said, False)}
        assert missing(trace, *PRODUCTS, column="dtype") == {(said, False)}
        assert missing(trace, "lm_head", column="hbm_bytes") == {(None, True)}


NO_SIGN = "kernels of the quantization that the model configuration states"


@pytest.mark.parametrize(
    ("name", "method", "said"),
    [
        ("qwen3_awq-eager", "awq", None),
        ("qwen3_fp8block-graph", "fp8", None),
        ("qwen3_kvfp8-eager", "fp8", NO_SIGN),  # only the KV cache is fp8
        ("qwen3_awq-graph", "fp8", NO_SIGN),  # Machete has no weights of fp8
        ("qwen2-graph", "gptq", NO_SIGN),
    ],
)
def test_kernels_must_show_the_stated_quantization(
    tmp_path: Path, name: str, method: str, said: str | None
) -> None:
    stored = {"quant_method": method, "bits": 4, "group_size": 128}
    with loaded(tmp_path, name, {"quantization_config": stored}) as trace:
        assert missing(trace, *PRODUCTS, column="hbm_bytes") == {(said, said is None)}
        assert missing(trace, *PRODUCTS, column="dtype") == {(said, said is None)}
        assert missing(trace, *PRODUCTS) == {(said, True)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "qwen9"}, "the sizes of model type qwen9 are not known"),
        ({"num_attention_heads": 0}, "a value of the model configuration is not usable"),
        ({"vocab_size": None}, "the model configuration has no vocab_size"),
        ({"dtype": "float6"}, "dtype of the model (float6)"),
    ],
)
def test_a_configuration_without_sizes(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with loaded(tmp_path, "qwen3_fp8-graph", change) as trace:
        found = missing(trace, *PRODUCTS, "attention", "rope", "kv_write", "lm_head")
        assert len(found) == 1
        text, known = found.pop()
        assert (text[: len(said)], known) == (said, False)


def test_attention_needs_the_lengths_of_requests(tmp_path: Path) -> None:
    with loaded(tmp_path, "qwen3_fp8-graph") as trace:
        assert missing(trace, "attention") == {("KV lengths", False)}
        assert missing(trace, "kv_write", "rope") == {(None, True)}


# --- drafted tokens: Qwen3-8B on an H200, three tokens a request ---------------------------------


DATA = Path(__file__).parent / "data"
LAYERS, HEADS, HEAD_DIM, HIDDEN, WORDS = 36, 32, 128, 4096, 151_936


def test_each_drafted_token_attends_to_all_before_it_and_has_logits(tmp_path: Path) -> None:
    """Whereas a prompt has logits for its last token alone."""
    traceql.load([DATA / "speculation"], tmp_path / "run.duckdb", peaks=[DATA / "peaks-h200.json"])
    trace = traceql.Run(tmp_path / "run.duckdb")
    lines = (DATA / "speculation" / "steps.jsonl").read_text().splitlines()
    # Of each iteration with requests: the tokens of each, and those computed before.
    iterations = [
        [(tokens, of["computed"][request]) for request, tokens in of["requests"].items()]
        for of in map(json.loads, lines)
        if of["requests"]
    ]
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
    products = "SELECT flops, source FROM cost WHERE role = 'lm_head' ORDER BY step_id"
    rows = [
        sum(tokens if computed >= 256 else 1 for tokens, computed in requests)
        for requests in iterations
    ]
    expected = [(2 * HIDDEN * WORDS * count, "shapes") for count in rows]
    assert trace.sql(products).fetchall() == expected
    counted = trace.sql("SELECT logit_rows AS n FROM step_tokens WHERE tokens > 0 ORDER BY step_id")
    assert [row["n"] for row in counted.rows()] == rows
