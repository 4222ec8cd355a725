"""Layers and roles of real traces: against their modules, their configuration and their code."""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import databases
import pytest
import traces
from command_line import output
from forward_passes import CHECKS
from recordings import load_without_modules, recordings
from shared_files import shared_file

import traceql
from traceql.util.resources import EXAMPLES

pytestmark = pytest.mark.slow

OURS = {  # name: layers that each rank holds, as the model's configuration has them
    "qwen3-0.6b-tp1-eager": 28,
    "qwen3-30b-a3b-tp2-ep-eager-stack-6layers": 6,
    "qwen3-30b-a3b-tp4-ep-graph": 48,
    "qwen3-32b-tp4-graph-nccl": 64,
    "qwen3-8b-pp2-graph": 18,
    "qwen3-8b-tp1-graph": 36,
    "qwen3-8b-tp2-eager-stack-4layers": 4,
    "qwen3-8b-tp2-graph-serving": 36,
}


@pytest.mark.parametrize("name", OURS)
def test_every_check_passes_on_our_traces(name: str) -> None:
    trace = databases.trace(name)
    for check in sorted(CHECKS.glob("*.sql")):
        assert trace.sql(check.read_text()).rows() == [], check.name
    held = trace.select("SELECT DISTINCT layers FROM rank_model").rows()
    assert held == [{"layers": OURS[name]}]


@pytest.mark.parametrize(
    ("name", "count"),
    [("mi300x-sglang", 36), ("b200-vllm-moe-eager", 36), ("mi300x-resnet-training", 8)],
)
def test_traces_of_others(name: str, count: int) -> None:
    (row,) = databases.trace(name).sql("SELECT COUNT(DISTINCT layer) AS layers FROM kernel")
    assert row["layers"] == count


def test_gpt_oss_on_rocm_has_24_layers_with_roles(tmp_path: Path) -> None:
    """24 writes to the KV cache, each before attention and two products of experts."""
    run = databases.SHARED.parent / "reports" / "gpt-oss-on-mi300x"
    if not run.is_dir():
        pytest.skip(f"no {run}")
    with traceql.open(traceql.load(run, tmp_path / "run.duckdb").database) as trace:
        counted = trace.select("""
            SELECT role, COUNT(*) AS kernels, COUNT(DISTINCT layer) AS layers FROM kernel
            WHERE symbol IN ('k', 'a', 'X') GROUP BY role
        """).rows()
        assert {row["role"]: (row["kernels"], row["layers"]) for row in counted} == dict.fromkeys(
            ["kv_write", "attention", "experts_gate_up", "experts_down"], (24, 24)
        )
        roleless = trace.select("SELECT COUNT(*) AS n FROM kernel WHERE role IS NULL").rows()
        assert roleless == [{"n": 0}]


# What a layer of these two models launches, as the code of their modules has it: Qwen2 of Hugging
# Face with three linear layers before attention and one after it, gpt-oss with experts.
LAUNCHED = {
    "h100-qwen1.5": {
        "qkv_proj": 3, "attention": 1, "o_proj": 1, "gate_up_proj": 2, "down_proj": 1,
    },
    "b200-vllm-moe-eager": {
        "qkv_proj": 1, "attention": 1, "o_proj": 1, "attn_allreduce": 1, "router": 1, "topk": 1,
        "experts_gate_up": 1, "experts_down": 1, "moe_sum": 1, "mlp_allreduce": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", LAUNCHED)
def test_modules_of_others_name_roles(name: str) -> None:
    trace = databases.trace(name)
    counted = trace.select("""
        SELECT layer, role, COUNT(*) AS kernels FROM kernel
        WHERE layer IS NOT NULL AND symbol IN ('g', 'a', 'A', 'T', 'X', 'U')
        GROUP BY layer, role
    """).rows()
    by_layer: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for row in counted:
        by_layer[row["layer"]][row["role"]] = row["kernels"]
    assert by_layer
    assert all(parts == LAUNCHED[name] for parts in by_layer.values())
    (row,) = trace.select("""
        SELECT COUNT(*) AS n FROM kernel WHERE role = 'attention' AND symbol = 'e'
    """)
    (inner,) = trace.sql("SELECT COUNT(*) AS n FROM kernel WHERE layer_source = 'module'")
    assert inner["n"] > 0
    # gpt-oss copies its queries before they are quantized: those copies are attention's.
    assert row["n"] == (36 if name.startswith("b200") else 0)


def test_pipeline_stages_number_layers_of_the_whole_model() -> None:
    trace = databases.trace("qwen3-8b-pp2-graph")
    spans = trace.sql(
        "SELECT rank, MIN(layer) AS first, MAX(layer) AS last FROM kernel GROUP BY 1 ORDER BY 1"
    ).rows()
    assert spans == [
        {"rank": 0, "first": 0, "last": 17},
        {"rank": 1, "first": 18, "last": 35},
    ]
    sides = trace.sql(
        "SELECT DISTINCT rank, role FROM kernel WHERE name LIKE '%SendRecv%' ORDER BY 1"
    ).rows()
    assert sides == [{"rank": 0, "role": "pp_send"}, {"rank": 1, "role": "pp_recv"}]


def test_configuration_is_checked_not_forced(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for layers_, expected in ((36, True), (40, False)):
        config.write_text(json.dumps({"model_type": "qwen3", "num_hidden_layers": layers_}))
        database = tmp_path / f"{layers_}.duckdb"
        traceql.load(EXAMPLES / "qwen3-8b-tp1-graph", database, model_config=config)
        with traceql.open(database) as trace:
            (row,) = trace.sql("SELECT * FROM ledger WHERE check_name = 'layers of the model'")
            assert (row["value"], row["total"], row["ok"]) == (36, layers_, expected)
            (row,) = trace.sql("SELECT ok FROM ledger WHERE check_name = 'model family'")
            assert row["ok"] is True
    config.write_text("{}")
    with pytest.raises(traceql.TraceqlError, match="no model_type"):
        traceql.load(EXAMPLES / "qwen3-8b-tp1-graph", tmp_path / "y.duckdb", model_config=config)
    assert not (tmp_path / "y.duckdb").exists()


def test_graph_nodes_come_before_the_sequence(tmp_path: Path) -> None:
    (source,) = (EXAMPLES / "qwen3-8b-tp1-graph").glob("*.json.gz")
    trace = json.loads(gzip.decompress(source.read_bytes()))
    kernel = next(
        e for e in trace["traceEvents"]
        if e.get("cat") == "kernel" and "reshape_and_cache" in e["name"]
        and e["args"].get("graph id", 0) == 0 and e["args"].get("External id") is None
    )  # fmt: skip
    kernel["args"]["graph node id"] = 77
    (tmp_path / "rank0.json").write_text(json.dumps(trace))
    (tmp_path / "graph_nodes.json").write_text('{"0": {"77": "model.layers.3.self_attn.attn"}}')
    with traceql.open(
        traceql.load(tmp_path / "rank0.json", tmp_path / "x.duckdb").database
    ) as opened:
        rows = opened.select("SELECT layer, role FROM kernel WHERE layer_source = 'graph_node'")
        assert rows.rows() == [{"layer": 3, "role": "kv_write"}]


# Only layers of the decoder have a number.
ANNOTATED = {
    "model.layers.0.self_attn.qkv_proj": (0, "qkv_proj"),
    "model_1.layers.1.mlp.down_proj": (1, "down_proj"),
    "transformer.h.1.mlp.down_proj": (1, "down_proj"),
    "visual.layers.3.self_attn.qkv_proj": (None, None),
    "model.vision_tower.layers.7.mlp.up_proj": (None, None),
    "vae.block_3.conv": (None, None),
}


def test_annotated_ranges_name_layers(tmp_path: Path) -> None:
    events = []
    for n, name in enumerate(ANNOTATED):
        events += [
            traces.host(f"module: {name}", ts=20 * n, dur=10, cat="user_annotation"),
            traces.launch(ts=20 * n + 2, correlation=n + 1),
            traces.kernel(ts=20 * n + 5, dur=3, correlation=n + 1),
        ]
    with traces.loaded(tmp_path, events) as trace:
        rows = trace.sql("SELECT layer, role FROM kernel ORDER BY ts")
        assert [tuple(row.values()) for row in rows] == list(ANNOTATED.values())
        host = trace.run("layers.host").rows()
        assert [(row["layer"], row["calls"], row["host_ns"]) for row in host] == [
            (0, 1, 10_000), (1, 2, 20_000),
        ]  # fmt: skip
        tree = {row["path"]: row["inclusive_ns"] for row in trace.run("modules.tree")}
        assert tree["transformer/h/1/mlp/down_proj"] == 3_000


# --- families in the ledger, in checks and in `traceql info` -------------------------------------


UNKNOWN = "mamba2-graph"


def loaded(name: str, folder: Path, *, configured: bool) -> Path:
    """The database of a recording, which tests only read."""

    def make(path: Path) -> None:
        (recording,) = (one for one in recordings() if one.name == name)
        load_without_modules(recording, folder, configured=configured).rename(path)

    return shared_file(f"{name}-{configured}.duckdb", make)


@pytest.mark.parametrize(
    ("configured", "reason"),
    [
        (False, "the layers fit no known family"),
        (True, "no family is known for the configured model_type mamba2"),
    ],
)
def test_an_unknown_family_is_no_failure(tmp_path: Path, *, configured: bool, reason: str) -> None:
    with traceql.open(loaded(UNKNOWN, tmp_path, configured=configured)) as trace:
        checks = {row["check_name"]: (row["ok"], row["note"]) for row in trace.sql("FROM ledger")}
    note = f"{reason}; roles follow from the kinds and places of kernels"
    assert checks["model family"] == (None, note)
    ok, note = checks["time in layers without a role"]
    assert ok is None
    assert "no family is known" in note


def test_layers_that_do_not_fit_the_configured_family_are_a_failure(tmp_path: Path) -> None:
    (recording,) = (one for one in recordings() if one.name == UNKNOWN)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "num_hidden_layers": recording.layers}))
    traceql.load(recording.path, tmp_path / "x.duckdb", model_config=config)
    with traceql.open(tmp_path / "x.duckdb") as trace:
        (row,) = trace.sql("FROM ledger WHERE check_name = 'model family'")
    assert row["ok"] is False
    assert "do not fit the family llama of the configured model_type" in row["note"]


@pytest.mark.parametrize(
    ("name", "family"),
    [(UNKNOWN, "unknown (roles by place)"), ("qwen3_gptq-eager", "qwen3 (fits best)")],
)
def test_info_prints_how_layers_are_known(tmp_path: Path, name: str, family: str) -> None:
    database = loaded(name, tmp_path, configured=False)
    shown = output("info", database)
    (row,) = (line for line in shown.splitlines() if "complete forward pass" in line)
    assert family in row
    assert "5 complete forward passes" in row


def test_info_prints_why_no_layers_are_found(tmp_path: Path) -> None:
    (recording,) = (one for one in recordings() if one.name == "nemotronh-eager")
    database = load_without_modules(recording, tmp_path)
    reason = "no forward pass is complete, or not every layer writes a KV cache"
    assert f"No layers were found on rank 0: {reason}" in output("info", database)
