"""Forward passes in letters: their layers, their roles and what the ledger says of them."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
import traces
from derived import database, rows
from forward_passes import (
    AFTER,
    BEFORE,
    DENSE,
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


def test_kernels_have_the_letters_that_they_stand_for() -> None:
    con = database(*forward("".join(NAME), ts=0))
    assert rows(con, "SELECT STRING_AGG(symbol, '' ORDER BY ts) FROM kernel") == [("".join(NAME),)]


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
def test_a_model_of_no_family_has_layers_by_repetition() -> None:
    layer = "ngogokoaoggog"
    letters = whole(layer)
    con = run_of(letters, letters)
    assert found_layers(con) == expected(letters, layer) * 2
    assert rows(con, "SELECT family, layers, confirmed FROM rank_model") == [(None, LAYERS, 2)]
    sources = "SELECT DISTINCT layer_source FROM kernel WHERE layer IS NOT NULL"
    assert rows(con, sources) == [("repetition",)]
    assert ledger(con, "layers attributed") == (2 * LAYERS, 2 * LAYERS, True)


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


def test_quantisation_belongs_to_the_product_that_it_feeds() -> None:
    layer = "nqgnrkaqgnqgvqg"
    _, role = attributed("qwen3", whole(layer), whole(layer))
    assert [name for letter, name in of_first_layer(layer, role[0]) if letter == "q"] == [
        "qkv_proj", "o_proj", "gate_up_proj", "down_proj"
    ]  # fmt: skip


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
