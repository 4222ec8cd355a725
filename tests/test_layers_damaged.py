"""Damage to the kernels of real models: a kernel has the right layer, or none."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from damage import (
    UNKNOWN,
    chance,
    damaged,
    damaged_recordings,
    inserted,
    pass_spans,
    removed,
    replaced,
    whole_layers,
    whole_numbers,
    wrong_and_lost,
)
from letters import layers_of
from recorded_layers import folded_letters, main_kernels, main_stream, streams
from recordings import Recording, load_without_modules, recordings

import traceql
from traceql.analysis.layers import roles
from traceql.analysis.layers.attribution import Model, attributed
from traceql.analysis.layers.kernel_text import Stream, Trait, letters

ANCHORS = letters(Trait.ANCHORS_LAYER)
every_recording = pytest.mark.parametrize("recording", damaged_recordings())
ROUNDS = 8


Damage = Callable[[int, list[int], str], tuple[list[int], dict[int, str]]]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [removed, inserted, replaced])
@every_recording
def test_one_damage_costs_few_layers_of_its_pass(recording: Recording, damage: Damage) -> None:
    """It costs its layer and one more; the whole pass if it hits the anchor of a layer."""
    dice = chance(recording, damage.__name__)
    truth, numbers = whole_layers(recording), whole_numbers(recording)
    everything = list(range(len(truth)))
    of_pass = layers_of(main_stream(recording)).pass_number
    for _ in range(ROUNDS):
        at = int(dice.choice(np.flatnonzero(truth >= 0)))
        kept, added = damage(at, everything, UNKNOWN)
        wrong, lost = wrong_and_lost(recording, damaged(recording, kept, added), kept)
        assert wrong.tolist() == [], at
        if len(set(of_pass.tolist())) >= 3:
            lost_layers = set(numbers[lost].tolist())
            assert set(of_pass[sorted(lost_layers)].tolist()) <= {of_pass[numbers[at]]}, at
            hits_anchor = main_stream(recording).letters[at] in ANCHORS
            assert len(lost_layers) <= 2 or hits_anchor, at


@every_recording
def test_a_recording_that_begins_or_ends_anywhere_gives_no_wrong_layer(
    recording: Recording,
) -> None:
    dice = chance(recording, "cut")
    total = len(whole_layers(recording))
    for _ in range(ROUNDS):
        at = dice.randrange(1, total)
        for kept in (list(range(at, total)), list(range(at))):
            wrong, _ = wrong_and_lost(recording, damaged(recording, kept, {}), kept)
            assert wrong.tolist() == [], (at, kept[0])


# --- recordings of one pass, and of passes of two layers -----------------------------------------


# Of these, one pass alone has layers of a kind that it has only once, which may be damage.
UNCERTAIN_ALONE = {
    "lfm2-eager", "mamba2-graph", "kimilinear-eager", "kimilinear-graph", "qwen3next-graph"
}  # fmt: skip


@every_recording
def test_one_pass_alone_has_its_layers(recording: Recording) -> None:
    for low, high in pass_spans(recording):
        kept = list(range(low, high))
        wrong, lost = wrong_and_lost(recording, damaged(recording, kept, {}), kept)
        assert wrong.tolist() == [], (low, high)
        inside = (whole_layers(recording)[low:high] >= 0).sum()
        assert len(lost) <= 0.1 * inside or recording.name in UNCERTAIN_ALONE, (low, high)


# --- kernels of a new name -----------------------------------------------------------------------


# Layers of Mamba-2 have few kernels, so that one of them may be the border of a layer. In the other
# two, only the activation tells where an MLP is.
FRAGILE = {"mamba2-graph": "", "smollm3-graph": "mul_silu", "exaone4-eager": "act_and_mul"}


@pytest.mark.parametrize("recording", damaged_recordings(without=("olmo2",)))
def test_a_kernel_of_a_new_name_costs_few_layers(recording: Recording) -> None:
    found, stream = main_kernels(recording), main_stream(recording)
    layers = whole_layers(recording)
    inside = int((layers >= 0).sum())
    names = {one.name: one.symbol for one, layer in zip(found, layers, strict=True) if layer >= 0}
    for name, symbol in sorted(names.items()):
        renamed = Stream(folded_letters(found, unknown=name), stream.step)
        wrong, lost = wrong_and_lost(recording, renamed, list(range(len(layers))))
        assert wrong.tolist() == [], name
        is_fragile = FRAGILE.get(recording.name, "none") in name
        assert len(lost) < 0.8 * inside or symbol in ANCHORS or is_fragile, name


# --- without the family of the model -------------------------------------------------------------


BY_PLACE_AND_KIND = {"input_norm", "kv_write", "attention"}
RECORDINGS = [one for one in recordings() if one.model_type != "nemotron_h"]
QUICK = {"gemma2-eager", "deepseekv2-graph", "jamba-eager"}
# Families that none of the recordings' models has.
UNRELATED = {"qwen3": "gpt_oss", "gpt_oss": "qwen3"}


def one_family(folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves one family, which is not that of the recording's model."""
    name = UNRELATED.get(recording.model_type, "mixtral")
    name = "qwen3" if recording.model_type == name else name
    (folder / "families").mkdir()
    file = roles.FAMILIES / f"{name}.toml"
    (folder / "families" / file.name).write_text(file.read_text())
    monkeypatch.setattr("traceql.analysis.layers.roles.FAMILIES", folder / "families")


def layers_and_roles(recording: Recording) -> dict[int, tuple[int | None, str | None]]:
    model = Model(recording.model_type, recording.layers)
    tables = attributed(streams(recording), model)
    rows = [row for table in tables for row in table.to_pylist()]
    return {row["id"]: (row["layer"], row["role"]) for row in rows}


@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(one, id=one.name, marks=[] if one.name in QUICK else [pytest.mark.slow])
        for one in RECORDINGS
    ],
)
def test_layers_need_no_family(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_all = layers_and_roles(recording)
    one_family(tmp_path, recording, monkeypatch)
    with_one = layers_and_roles(recording)
    layer = {n: of for n, (of, _) in with_all.items() if of is not None}
    assert layer
    assert {n: of for n, (of, _) in with_one.items() if of is not None} == layer
    role = {n: with_one[n][1] for n in layer}
    for name in BY_PLACE_AND_KIND:
        have = {layer[n] for n in layer if role[n] == name}
        assert have == {layer[n] for n in layer if with_all[n][1] == name}, name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen3moe-graph", "gemma2-eager"])
def test_layers_without_a_family_are_known_by_repetition(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recording,) = (one for one in recordings() if one.name == name)
    one_family(tmp_path, recording, monkeypatch)
    database = load_without_modules(recording, tmp_path, configured=True)
    with traceql.open(database) as trace:
        (model,) = trace.select("SELECT family, layers FROM rank_model").rows()
        assert model == {"family": None, "layers": recording.layers}
        sources = "SELECT DISTINCT layer_source FROM kernel WHERE layer IS NOT NULL"
        assert trace.sql(sources).rows() == [{"layer_source": "repetition"}]
