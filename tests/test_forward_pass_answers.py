"""Forward passes in letters, through the whole of a database: stages, checks and answers."""

from pathlib import Path

import duckdb
import pytest
import traces
from derived import Tables, answer, database
from forward_passes import (
    BEFORE,
    DENSE,
    EVERY_US,
    EXPERTS,
    LAYERS,
    NAME,
    expected,
    failing,
    forward,
    run_of,
    whole,
)

import traceql
from traceql.database.loading.model_config import write_model_config
from traceql.sql.execute import create_sources

pytestmark = pytest.mark.slow

# --- configuration and files -----------------------------------------------------------------


@pytest.mark.parametrize("count", ["true", "-3", "0", "1" + "0" * 30])
def test_an_impossible_number_of_layers_is_refused(count: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "qwen3", "num_hidden_layers": ' + count + "}")
    con = duckdb.connect()
    create_sources(con)
    with pytest.raises(traceql.TraceqlError, match=r"at `\$.num_hidden_layers`") as error:
        write_model_config(con, config, [], {})
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < len(str(config)) + 150


RANGES = {
    "module: model_1.layers.12.self_attn.qkv_proj": (12, "qkv_proj"),
    "module: transformer.h.5.mlp.down_proj": (5, "down_proj"),
    "module: visual.layers.3.self_attn.qkv_proj": (None, None),
    "module: vae.block_3.conv": (None, None),
    "module: text_2.layers.7.mlp.up_proj": (None, None),
    "module: model.vision_tower.layers.7.mlp.up_proj": (None, None),
    "load layers.3 weights": (None, None),
}


def test_only_layers_of_the_decoder_are_named_by_ranges(tmp_path: Path) -> None:
    events = []
    for n, name in enumerate(RANGES):
        at = 100 * n
        events += [
            traces.host(name, ts=at, dur=50, cat="user_annotation"),
            traces.launch(ts=at + 2, correlation=n + 1),
            traces.kernel(NAME["g"], ts=at + 5, dur=3, correlation=n + 1),
        ]
    path = traces.write(tmp_path / "t.json", *events)
    with traceql.open(traceql.load(path, tmp_path / "x.duckdb").database) as trace:
        found = trace.sql("SELECT layer, role FROM kernel ORDER BY ts").rows()
        assert [tuple(row.values()) for row in found] == list(RANGES.values())


# --- checks: each fails on the damage that it is for ----------------------------------------


@pytest.fixture(scope="module")
def healthy() -> Tables:
    letters = whole(EXPERTS)
    prefill = forward(letters, ts=0, context=(1, 9), generation=(0, 0))
    mixed = forward(letters, ts=10_000, first=1_001, context=(1, 9))
    found = Tables()
    found.fill(*prefill, *mixed, *forward(letters, ts=20_000, first=2_001))
    assert failing(found) == set()
    return found


@pytest.mark.parametrize(
    ("check", "damage"),
    [
        ("layers.complete", "UPDATE kernel SET layer = NULL WHERE layer = 2 AND step_id = 1"),
        ("layers.kv_writes", "UPDATE kernel SET layer = NULL WHERE symbol = 'k' AND layer = 1"),
        ("layers.one_of_each", "DELETE FROM kernel WHERE role = 'o_proj' AND layer = 1"),
        ("layers.one_of_each", "DELETE FROM kernel WHERE role = 'post_attn_norm' AND layer = 1"),
        ("layers.siblings_agree", "DELETE FROM kernel WHERE role = 'act' AND layer = 3"),
        ("layers.siblings_agree", "DELETE FROM kernel WHERE role = 'moe_sum' AND layer = 0"),
        ("layers.siblings_agree", "DELETE FROM kernel WHERE role = 'moe_align' AND layer = 0"),
        ("layers.phases_agree", "DELETE FROM kernel WHERE role = 'rope' AND step_id = 1"),
        ("layers.phases_agree", "UPDATE kernel SET layer = NULL, role = NULL WHERE step_id = 0"),
        ("layers.coverage", "UPDATE ledger SET ok = FALSE WHERE check_name LIKE 'time without%'"),
        ("ledger.holds", "UPDATE ledger SET ok = FALSE WHERE check_name = 'layers attributed'"),
        ("breakdown.adds_up", "UPDATE ledger SET ok = FALSE WHERE check_name = 'idle in gaps'"),
        ("steps.add_up", "DELETE FROM step_time WHERE part = 'computing' AND step_id = 0"),
    ],
)
def test_checks_fail_on_damaged_databases(check: str, damage: str, healthy: Tables) -> None:
    healthy.execute("BEGIN")
    healthy.execute(damage)
    found = failing(healthy)
    healthy.execute("ROLLBACK")
    assert check in found


# --- answers, counted by hand ----------------------------------------------------------------


def test_answers_are_those_counted_from_the_letters() -> None:
    letters = whole()
    durations = [1 + n % 4 for n in range(len(letters))]  # us, no longer than a slot
    con = run_of(letters, letters, us=durations, pieces=[0])
    layer_of = expected(letters)
    total = sum(d for d, layer in zip(durations, layer_of, strict=True) if layer is not None)
    spans = range(len(BEFORE), len(BEFORE) + LAYERS * len(DENSE), len(DENSE))
    parts = (
        "input_norm", "qkv_proj", "qk_norm", "rope", "kv_write", "attention", "o_proj",
        "attn_allreduce", "post_attn_norm", "gate_up_proj", "act", "down_proj", "mlp_allreduce",
    )  # fmt: skip
    breakdown = {
        (layer, role): (calls, ns, round(share, 9))
        for _, layer, role, ns, _, share, _, calls, *_ in answer(con, "layers.breakdown")
    }
    assert breakdown == {
        (layer, role): (2, 2000 * d, round(100 * d / total, 9))
        for layer, start in enumerate(spans)
        for role, d in zip(parts, durations[start : start + len(DENSE)], strict=True)
    }
    by_role = {
        role: (calls, layers, ns)
        for _, role, _, _, _, _, _, calls, _, layers, ns in answer(con, "layers.roles")
    }
    assert by_role["act"] == (
        2 * LAYERS, LAYERS, 2000 * sum(durations[start + parts.index("act")] for start in spans)
    )  # fmt: skip
    assert by_role["final_norm"] == (2, 0, 2000 * durations[letters.rindex("n")])
    assert sum(ns for _, _, ns in by_role.values()) == 2000 * sum(durations)
    heat = [
        (step, layer, dur, busy) for step, _, _, layer, dur, busy in answer(con, "layers.heatmap")
    ]
    assert heat == [
        (
            step,
            layer,
            1000 * (EVERY_US * (len(DENSE) - 1) + durations[start + len(DENSE) - 1]),
            1000 * sum(durations[start : start + len(DENSE)]),
        )
        for step in (0, 1)
        for layer, start in enumerate(spans)
    ]
    anatomy = answer(con, "steps.anatomy", step=1)
    assert [(row[2], row[3], row[4], row[6], row[9]) for row in anatomy] == [
        (5000 * n, 1000 * d, 1000 * (EVERY_US - durations[n - 1]) if n else 0, layer, NAME[letter])
        for n, (letter, d, layer) in enumerate(zip(letters, durations, layer_of, strict=True))
    ]
    replays = answer(con, "graphs.replays")
    assert [row[5:11] for row in replays] == [
        (500, len(letters), LAYERS, 10_000, 5000 * (len(letters) - 1) + 1000 * durations[-1],
         1000 * sum(durations))
    ] * 2  # fmt: skip


def test_a_layer_that_waited_is_slow_by_idle_time() -> None:
    letters = whole(count=8)
    events = forward(letters, ts=0)
    late = len(BEFORE) + 3 * len(DENSE) + 4
    slots = [e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    for event in slots[late:]:
        event["ts"] += 100  # a wait of 100 us within layer 3
    slots[late]["dur"] = 5  # whose fifth kernel is also 1 us longer
    (row,) = answer(database(*events), "layers.outliers")
    assert (row[4], row[7], row[9]) == (3, 100_000, "idle")
