"""Forward passes in letters: their layers, their roles and what the ledger says of them."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
import traces
from derived import Tables, answer, database, rows
from forward_passes import (
    AFTER,
    BEFORE,
    DENSE,
    EVERY_US,
    EXPERTS,
    KERNEL_US,
    LAYERS,
    NAME,
    expected,
    failing,
    forward,
    found_layers,
    ledger,
    run_of,
    whole,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import known, stream_of


def attributed(family: str, *passes: str) -> tuple[list[list[int | None]], list[list[str]]]:
    """Layers and roles of the kernels of each pass, from the letters alone."""
    found = known(stream_of(*passes), family)
    layer = [None if n < 0 else n for n in found.layer.tolist()]
    role = [one or "" for one in found.role]
    spans = list(pairwise(accumulate(map(len, passes), initial=0)))
    return [layer[x:y] for x, y in spans], [role[x:y] for x, y in spans]


def of_first_layer(layer: str, role: Sequence[str]) -> list[tuple[str, str]]:
    """The letters of a pass's first layer, each with the role of its kernel."""
    return list(zip(layer, role[len(BEFORE) : len(BEFORE) + len(layer)], strict=True))


@pytest.mark.slow
def test_a_model_that_is_not_recognised_fails() -> None:
    letters = whole("nokoao")  # no rule classifies its products, so nothing divides its layers
    con = run_of(letters, letters)
    assert found_layers(con) == [None] * 2 * len(letters)
    assert ledger(con, "layers attributed") == (0, 2 * LAYERS, False)
    total = 2 * len(letters) * KERNEL_US * 1000
    assert ledger(con, "time without a layer or role") == (total, total, False)
    assert {"ledger.holds", "layers.coverage"} <= failing(con)


@pytest.mark.slow
def test_a_trace_without_a_model_invents_nothing() -> None:
    con = database(*(traces.kernel(NAME[c], ts=5 * n, dur=4) for n, c in enumerate("gegevg")))
    assert rows(con, "SELECT COUNT(layer), COUNT(role) FROM kernel") == [(0, 0)]
    assert failing(con) == set()


@pytest.mark.slow
def test_a_pass_that_matches_nothing_counts_in_the_ledger() -> None:
    con = run_of(whole(), BEFORE + "nogoaAngog" * LAYERS + AFTER)
    value, total, ok = ledger(con, "time without a layer or role")
    lost = len(BEFORE + "nogoaAngog" * LAYERS + AFTER) - 2  # input_prep and sample are certain
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


def test_two_passes_in_one_step_are_two() -> None:
    found, _ = attributed("qwen3", whole() + whole(), whole())
    assert found == [expected(whole()) * 2, expected(whole())]


def test_passes_of_a_draft_model_have_no_layers() -> None:
    draft = "E" + DENSE + "ngz"
    fused = "Eeg" + DENSE * 2 + "ngz"  # what precedes its layers is a matrix product
    letters = whole() + draft * 3 + fused
    found, _ = attributed("qwen3", letters, letters, letters)
    assert found == [expected(letters)] * 3


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


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(later=st.integers(1, 4), second=st.integers(1, 3))
def test_two_streams_that_take_turns_are_separate(later: int, second: int) -> None:
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
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_layers_straddle_graphs_that_end_anywhere(data: st.DataObject) -> None:
    letters = whole()
    cuts = data.draw(st.sets(st.integers(0, len(letters) - 1), min_size=1, max_size=6))
    con = run_of(letters, letters, pieces=sorted(cuts))
    assert found_layers(con) == expected(letters) * 2
    (launches,) = rows(con, "SELECT COUNT(DISTINCT launch_id) FROM kernel WHERE in_graph")
    assert launches == (2 * len(cuts),)


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize(("copies", "found"), [("yyyy", True), ("yy", False)])
def test_copied_inputs_are_before_the_layers_of_the_only_pass(copies: str, found: bool) -> None:
    """vLLM on ROCm: inputs are copied, and the compiled embedding is like any elementwise kernel.

    A layer may end with two copies, so that the recording may have begun within one.
    """
    layer = "ngerkagngeTLLLXXU"
    passed = f"{copies}ee" + layer.replace("e", "", 1) + 5 * layer + "neEg"
    layers, roles = attributed("gpt_oss", passed)
    numbers = [n for n in range(6) for _ in range(len(layer) - (n == 0))]
    expected_layers = [None] * (len(copies) + 2) + numbers + [None] * 4
    assert layers[0] == (expected_layers if found else [None] * len(passed))
    assert ("experts_gate_up" in roles[0]) == found


# On an MI300X with AITER, one kernel (fmoe) computes both products of the experts.
ON_ROCM = {
    "qwen3_moe": ("ngnnrkagngTLX", {"n": "input_norm qk_norm qk_norm post_attn_norm"}),
    "deepseek_v3": (
        "nqgnnqgrkgacgqgnqgqgvqgTLqX",
        {"n": "input_norm qk_norm qk_norm post_attn_norm", "v": "act"},
    ),
}


@pytest.mark.parametrize("family", ON_ROCM)
def test_experts_in_one_kernel_have_the_role_of_their_first_product(family: str) -> None:
    layer, named = ON_ROCM[family]
    named = named | {"k": "kv_write", "a": "attention", "T": "topk", "X": "experts_gate_up"}
    passed = BEFORE + 4 * layer + AFTER
    layers, roles = attributed(family, passed, passed)
    assert layers[0] == [None] * len(BEFORE) + [
        n for n in range(4) for _ in layer
    ] + [None] * len(AFTER)  # fmt: skip
    first = of_first_layer(layer, roles[0])
    for letter, expected_roles in named.items():
        assert [role for one, role in first if one == letter] == expected_roles.split()
    assert "" not in [role for _, role in first]
