"""Forward passes in letters, through the whole of a database: layers, roles, checks and answers."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import traces
from derived import Tables, answer, database, rows
from hypothesis import given, settings
from hypothesis import strategies as st

import traceql
from traceql.derive.execute import create_sources
from traceql.layers.grammar import grammars
from traceql.layers.sequence import Stream, layers, roles
from traceql.loading.model_config import write_model_config
from traceql.resources import CHECKS

NAME = {  # a kernel of each symbol
    "n": "vllm::rms_norm_kernel",
    "g": "nvjet_sm90_tst_64x8",
    "s": "void cublasLt::splitKreduce_kernel<32>",
    "e": "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >",
    "q": "void vllm::scaled_fp8_quant_kernel_strided<x>",
    "E": "void at::native::vectorized_gather_kernel<16, long>",
    "r": "void vllm::rotary_embedding_kernel<x>",
    "k": "void vllm::reshape_and_cache_flash_kernel<x>",
    "a": "flash::FlashAttnFwdSm90",
    "c": "flash::FlashAttnFwdCombine",
    "v": "void vllm::act_and_mul_kernel<x>",
    "A": "void vllm::cross_device_reduce_1stage<x>",
    "F": "trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
    "G": "ncclDevKernel_AllGather_RING_LL",
    "R": "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
    "P": "ncclDevKernel_SendRecv",
    "D": "void deep_ep::intranode::dispatch<8>",
    "C": "void deep_ep::intranode::combine<8>",
    "T": "void vllm::moe::topkGating<8>",
    "L": "void vllm::moe::moe_align_block_size_kernel<int>",
    "X": "fused_moe_kernel",
    "U": "void vllm::moe::moe_sum_kernel<x>",
    "i": "_prepare_pos_seq_lens_kernel",
    "z": "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
    "at::native::ArgMaxOps<float> > >",
    "o": "mystery",
    "y": "Memcpy HtoD (Pinned -> Device)",
    "m": "Memset (Device)",
}  # fmt: skip
KIND = {"y": "gpu_memcpy", "m": "gpu_memset"}
LAYERS = 4
DENSE = "ngnrkagAngvgA"
EXPERTS = "ngnrkagngTLXvXU"
BEFORE, AFTER = "yiE", "nEgz"
KERNEL_US, EVERY_US = 4, 5


def whole(layer: str = DENSE, count: int = LAYERS) -> str:
    return BEFORE + layer * count + AFTER


def forward(
    letters: str,
    *,
    ts: float,
    stream: int = 7,
    first: int = 1,
    pieces: Sequence[int] = (),
    generation: tuple[int, int] = (1, 1),
    context: tuple[int, int] = (0, 0),
    annotated: bool = True,
    us: Sequence[float] | None = None,
) -> list[traces.Event]:
    """One step: a kernel every 5 us, launched one by one or, where `pieces` says, by graphs.

    Args:
        first: the first correlation; kernel number n has first + n, or that of its graph.
        pieces: numbers of the kernels that graph launches begin with; each is followed by the
            next, and kernels before the first are launched alone.
        us: how long each kernel takes, if not 4 us.
    """
    host = [traces.step(ts=ts, dur=len(letters), context=context, generation=generation)]
    events = host if annotated else []
    for n, letter in enumerate(letters):
        graph = max((piece for piece in pieces if piece <= n), default=None)
        correlation = first + (n if graph is None else graph)
        if graph is None or graph == n:
            name = "cudaLaunchKernel" if graph is None else "cudaGraphLaunch"
            events.append(traces.launch(ts=ts + n, dur=0.5, correlation=correlation, name=name))
        dur = KERNEL_US if us is None else us[n]
        cat = KIND.get(letter, "kernel")
        at = ts + 10 + EVERY_US * n
        where = {"stream": stream, "correlation": correlation}
        events.append(traces.kernel(NAME[letter], ts=at, dur=dur, cat=cat, **where))
    return events


def run_of(*passes: str, **options: Any) -> Tables:
    events = []
    for number, letters in enumerate(passes):
        events += forward(letters, ts=10_000 * number, first=1_000 * number + 1, **options)
    return database(*events)


def expected(letters: str, layer: str = DENSE, count: int = LAYERS) -> list[int | None]:
    inside = [n for n in range(count) for _ in layer]
    return [None] * len(BEFORE) + inside + [None] * (len(letters) - len(BEFORE) - len(inside))


def found_layers(con: Tables, where: str = "TRUE") -> list[int | None]:
    return [layer for (layer,) in rows(con, f"SELECT layer FROM kernel WHERE {where} ORDER BY ts")]


def failing(con: Tables) -> set[str]:
    """Checks with rows, the ledger's comparison with a file aside: there is no file here."""
    con.execute(
        "UPDATE ledger SET ok = NULL WHERE regexp_matches(check_name, '^(events|duration) ')"
    )
    return {c.stem for c in sorted(CHECKS.glob("*.sql")) if rows(con, c.read_text())}


def attributed(family: str, *passes: str) -> tuple[list[list[int | None]], list[list[str]]]:
    """Layers and roles of the kernels of each pass, from the letters alone."""
    steps = np.repeat(np.arange(len(passes)), [len(one) for one in passes])
    stream = Stream("".join(passes), steps)
    (grammar,) = (one for one in grammars() if one.name == family)
    known = roles(stream, layers(stream, grammar))
    layer = [None if n < 0 else n for n in known.layer.tolist()]
    role = known.role.tolist()
    ends = np.cumsum([0, *map(len, passes)]).tolist()
    spans = list(pairwise(ends))
    return [layer[x:y] for x, y in spans], [role[x:y] for x, y in spans]


def of_first_layer(layer: str, role: Sequence[str]) -> list[tuple[str, str]]:
    """The letters of a pass's first layer, each with the role of its kernel."""
    return list(zip(layer, role[len(BEFORE) : len(BEFORE) + len(layer)], strict=True))


def ledger(con: Tables, check: str) -> tuple[Any, ...]:
    (row,) = con.execute(
        "SELECT value, total, ok FROM ledger WHERE check_name = ?", [check]
    ).fetchall()
    return row


def test_kernels_have_the_letters_that_they_stand_for() -> None:
    con = database(*forward("".join(NAME), ts=0))
    assert rows(con, "SELECT STRING_AGG(symbol, '' ORDER BY ts) FROM kernel") == [("".join(NAME),)]


def test_a_model_that_is_not_recognised_fails() -> None:
    con = run_of(whole("ngokog"), whole("ngokog"))
    assert found_layers(con) == [None] * 2 * len(whole("ngokog"))
    assert ledger(con, "layers attributed") == (0, 2 * LAYERS, False)
    total = 2 * len(whole("ngokog")) * KERNEL_US * 1000
    assert ledger(con, "time without a layer or role") == (total, total, False)
    assert {"ledger.holds", "layers.coverage"} <= failing(con)


def test_a_trace_without_a_model_invents_nothing() -> None:
    con = database(*(traces.kernel(NAME[c], ts=5 * n, dur=4) for n, c in enumerate("gegevg")))
    assert rows(con, "SELECT COUNT(layer), COUNT(role) FROM kernel") == [(0, 0)]
    assert failing(con) == set()


def test_a_pass_that_matches_nothing_counts_in_the_ledger() -> None:
    con = run_of(whole(), BEFORE + "nogkoAngog" * LAYERS + AFTER)
    value, total, ok = ledger(con, "time without a layer or role")
    lost = len(BEFORE + "nogkoAngog" * LAYERS + AFTER) - 2  # input_prep and sample are certain
    assert value == lost * KERNEL_US * 1000
    assert total == (lost + 2 + len(whole())) * KERNEL_US * 1000
    assert ok is False


@pytest.mark.parametrize("extra", ["o", "g", "a", "X", "n", "v"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_work_of_no_layer_has_no_role(extra: str, place: str) -> None:
    letters = whole()
    at = 2 if place == "before" else letters.rindex("z") + 1
    found, role = attributed("qwen3", letters[:at] + extra + letters[at:], letters)
    assert (found[0].pop(at), role[0].pop(at)) == (None, "")
    assert found == [expected(letters)] * 2
    assert role[0] == role[1]
    assert "" not in role[1]


def test_passes_of_a_draft_model_have_no_layers() -> None:
    draft = "E" + DENSE + "ngz"
    fused = "Eeg" + DENSE * 2 + "ngz"  # what precedes its layers is a matrix product
    letters = whole() + draft * 3 + fused
    found, _ = attributed("qwen3", letters, letters, letters)
    assert found == [expected(letters)] * 3


def test_a_recording_that_begins_within_a_draft() -> None:
    letters = whole() + ("E" + DENSE + "ngz") * 2
    found, _ = attributed("qwen3", letters[-len(DENSE) - 3 :], letters, letters)
    assert found == [[None] * (len(DENSE) + 3), *[expected(letters)] * 2]


def test_a_damaged_draft_is_not_taken_for_the_ends_of_the_model() -> None:
    draft = "E" + DENSE + DENSE.replace("v", "") + DENSE + "ngz"
    letters = whole(count=12) + draft
    found, _ = attributed("qwen3", letters, letters)
    assert found == [expected(letters, count=12)] * 2


def test_two_damages_lose_two_layers() -> None:
    count = 8
    letters = whole(count=count)
    removed = (len(BEFORE) + 2 * len(DENSE) + DENSE.index("k"), len(BEFORE) + 5 * len(DENSE))
    damaged = "".join(c for n, c in enumerate(letters) if n not in removed)
    want = [layer for n, layer in enumerate(expected(letters, count=count)) if n not in removed]
    found, _ = attributed("qwen3", letters, damaged, letters)
    assert found[1] == [None if layer in (2, 5) else layer for layer in want]


@pytest.mark.parametrize(
    ("layer", "dispatch", "combine"),
    [
        ("ngnrkagngTGLXvXUR", "G", "R"),
        ("ngnrkagngTGGGLXvXUR", "GGG", "R"),
        ("ngnrkagngTDDLXvXUC", "DD", "C"),
        ("ngnrkagngTPLXvXUP", "P", "P"),
        ("ngnrkagngGTLXvXR", "G", "R"),
    ],
)
def test_tokens_go_to_experts_and_come_back(layer: str, dispatch: str, combine: str) -> None:
    letters = whole(layer)
    found, role = attributed("qwen3_moe", letters, letters)
    assert found == [expected(letters, layer)] * 2
    of = dict.fromkeys(("dispatch", "combine"), "")
    for letter, name in of_first_layer(layer, role[0]):
        if name in of:
            of[name] += letter
    assert of == {"dispatch": dispatch, "combine": combine}


def test_a_damaged_exchange_with_experts_loses_one_layer() -> None:
    layer = "ngnrkagngTPLXvXUP"
    letters = whole(layer)
    at = len(BEFORE) + len(layer) + layer.index("T")
    found, _ = attributed("qwen3_moe", letters, letters[:at] + letters[at + 1 :], letters)
    want = expected(letters, layer)
    del want[at]
    assert found[1] == [None if layer == 1 else layer for layer in want]


def test_what_a_stage_sends_is_no_exchange_with_experts() -> None:
    letters = BEFORE + EXPERTS * LAYERS + "P"
    found, role = attributed("qwen3_moe", letters, letters)
    assert found == [expected(letters, EXPERTS)] * 2
    assert role[0][-1] == ""


def test_an_all_reduce_fused_with_the_next_norm_takes_its_place() -> None:
    letters = BEFORE + "ngnrkagFgvg" + "FgnrkagFgvg" * (LAYERS - 1) + "FEgz"
    found, role = attributed("qwen3", letters, letters)
    assert found == [expected(letters, "ngnrkagFgvg")] * 2
    fused = [name for letter, name in zip(letters, role[0], strict=True) if letter == "F"]
    inner = ["post_attn_norm", "input_norm"] * LAYERS
    assert fused == [*inner[:-1], "final_norm"]


def test_quantisation_belongs_to_the_product_that_it_feeds() -> None:
    layer = "nqgnrkaqgnqgvqg"
    _, role = attributed("qwen3", whole(layer), whole(layer))
    assert [name for letter, name in of_first_layer(layer, role[0]) if letter == "q"] == [
        "qkv_proj", "o_proj", "gate_up_proj", "down_proj"
    ]  # fmt: skip


def test_combining_partial_results_alone_is_no_attention() -> None:
    damaged = BEFORE + DENSE + DENSE.replace("a", "c") + DENSE * 2 + AFTER
    found, _ = attributed("qwen3", whole(), damaged)
    assert found[1] == [None if layer == 1 else layer for layer in expected(damaged)]


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(later=st.integers(1, 4), second=st.integers(1, 3))
def test_two_streams_that_take_turns_are_told_apart(later: int, second: int) -> None:
    events = forward(whole(), ts=0)
    for n in range(second):
        first = 1_000 * (n + 1)
        part = forward(whole(), ts=10_000 * n + later, stream=8, first=first, annotated=False)
        events += part
    con = database(*events)
    want = expected(whole())
    assert found_layers(con, "stream = 7") == want
    assert found_layers(con, "stream = 8") == want * second
    passes = rows(con, "SELECT DISTINCT pass, stream FROM kernel WHERE pass NOT NULL ORDER BY 1")
    assert passes == [(0, 7), *((n + 1, 8) for n in range(second))]
    assert rows(con, "SELECT COUNT(*), ANY_VALUE(layers) FROM rank_model") == [(1, LAYERS)]
    assert rows(con, "SELECT COUNT(*) FROM layer") == [((1 + second) * LAYERS,)]


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_layers_straddle_graphs_that_end_anywhere(data: st.DataObject) -> None:
    letters = whole()
    cuts = data.draw(st.sets(st.integers(0, len(letters) - 1), min_size=1, max_size=6))
    con = run_of(letters, letters, pieces=sorted(cuts))
    assert found_layers(con) == expected(letters) * 2
    (launches,) = rows(con, "SELECT COUNT(DISTINCT launch_id) FROM kernel WHERE in_graph")
    assert launches == (2 * len(cuts),)


# --- pipeline stages -------------------------------------------------------------------------


def test_a_stage_alone_does_not_know_the_split() -> None:
    letters = BEFORE + DENSE * LAYERS + "P"
    events = []
    for number, name in enumerate((None, "send", "recv")):
        part = forward(letters, ts=10_000 * number, first=1_000 * number + 1)
        if name:
            part[-1]["args"]["Collective name"] = name
        events += part
    con = database(*events)
    assert rows(con, "SELECT layers, first_layer, stage, stages FROM rank_model") == [
        (LAYERS, None, None, None)
    ]
    found = rows(con, "SELECT role FROM kernel WHERE symbol = 'P' ORDER BY ts")
    assert found == [("pp_exchange",), ("pp_send",), ("pp_recv",)]
    assert found_layers(con) == expected(letters) * 3
    assert ledger(con, "layers of the model") == (LAYERS, None, None)


def test_run_json_names_the_stage_of_each_rank(tmp_path: Path) -> None:
    stages = (BEFORE + DENSE * LAYERS + "P", "P" + DENSE * LAYERS + AFTER)
    folder = tmp_path / "run" / "traces"
    ranks = []
    for rank, letters in enumerate(stages):
        file = traces.write(folder / f"rank{rank}.json", *forward(letters, ts=0))
        ranks.append({"rank": rank, "pp_rank": rank, "trace": f"traces/{file.name}"})
    run = {"schema_version": 1, "status": "complete", "ranks": ranks}
    (tmp_path / "run" / "run.json").write_text(json.dumps(run))
    database = traceql.load(tmp_path / "run", tmp_path / "x.duckdb").database
    with traceql.open(database) as trace:
        found = trace.sql("SELECT rank, stage, stages, first_layer, source FROM rank_model")
        assert sorted(tuple(row.values()) for row in found) == [
            (0, 0, 2, 0, "run.json"),
            (1, 1, 2, LAYERS, "run.json"),
        ]


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


def test_a_folder_with_a_map_of_graph_nodes_and_a_configuration(tmp_path: Path) -> None:
    events = forward(whole("ngokog"), ts=0)
    chosen = next(event for event in events if event["name"] == NAME["k"])
    chosen["args"]["graph node id"] = 77
    call = next(
        event for event in events
        if event["cat"] == "cuda_runtime"
        and event["args"]["correlation"] == chosen["args"]["correlation"]
    )  # fmt: skip
    call["name"] = "cudaGraphLaunch"
    traces.write(tmp_path / "run" / "rank0.json", *events)
    nodes = {"0": {"77": "model.layers.3.self_attn.attn"}}
    (tmp_path / "run" / "graph_nodes.json").write_text(json.dumps(nodes))
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "qwen3", "num_hidden_layers": 4}')
    result = traceql.load(tmp_path / "run", tmp_path / "x.duckdb", model_config=config)
    with traceql.open(result.database) as trace:
        found = trace.sql("SELECT layer, role FROM kernel WHERE layer IS NOT NULL").rows()
        assert found == [{"layer": 3, "role": "kv_write"}]
        (row,) = trace.sql("SELECT * FROM ledger WHERE check_name = 'layers of the model'")
        assert (row["value"], row["total"], row["ok"]) == (None, 4, False)


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
        for _, layer, role, calls, ns, _, share in answer(con, "layers.breakdown")
    }
    assert breakdown == {
        (layer, role): (2, 2000 * d, round(100 * d / total, 9))
        for layer, start in enumerate(spans)
        for role, d in zip(parts, durations[start : start + len(DENSE)], strict=True)
    }
    by_role = {
        role: (calls, layers, ns) for _, role, calls, layers, ns, *_ in answer(con, "layers.roles")
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
    assert (row[3], row[6], row[8]) == (3, 100_000, "idle")
