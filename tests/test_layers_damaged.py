"""Damage to the kernels of real models: a kernel has the right layer, or none."""

from collections.abc import Callable

import numpy as np
import pytest
from damage import (
    UNKNOWN,
    chance,
    damaged,
    damaged_recordings,
    inserted,
    removed,
    replaced,
    whole_layers,
    whole_numbers,
    wrong_and_lost,
)
from letters import known, layers_of
from recorded_layers import main_stream
from recordings import Recording, recordings

from traceql.layers.symbols import Trait, letters

ANCHORS = letters(Trait.ANCHORS_LAYER)
every_recording = pytest.mark.parametrize("recording", damaged_recordings())
ROUNDS = 8


# One kind of damage is quick, the others are slow variants.
SINGLE = [removed, *(pytest.param(one, marks=pytest.mark.slow) for one in (inserted, replaced))]
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
def test_an_additional_kernel_of_a_known_kind_gives_no_wrong_layer(recording: Recording) -> None:
    dice = chance(recording, "real")
    layers = whole_layers(recording)
    inside = np.flatnonzero(layers >= 0)
    for _ in range(ROUNDS):
        at, other = int(dice.choice(inside)), int(dice.choice(inside))
        kind = main_stream(recording).letters[other]
        if kind in ANCHORS:
            continue
        kept, added = inserted(at, list(range(len(layers))), kind)
        wrong, _ = wrong_and_lost(recording, damaged(recording, kept, added), kept)
        assert wrong.tolist() == [], (at, kind)


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


@pytest.mark.parametrize("damage", SINGLE)
@every_recording
def test_one_damage_leaves_family_and_roles_of_other_layers(
    recording: Recording, damage: Damage
) -> None:
    dice, numbers = chance(recording, "roles"), whole_numbers(recording)
    stream, letters = main_stream(recording), main_stream(recording).letters
    whole = known(stream, recording.model_type)
    for _ in range(3):
        at = dice.choice([n for n in np.flatnonzero(numbers >= 0) if letters[n] not in ANCHORS])
        kept, added = damage(int(at), list(range(len(letters))), UNKNOWN)
        found = known(damaged(recording, kept, added), recording.model_type)
        assert found.family == whole.family, at
        near = {numbers[at] - 1, numbers[at], numbers[at] + 1}
        lost = [
            place for role, place in zip(found.role, kept, strict=True)
            if place >= 0 and numbers[place] >= 0 and numbers[place] not in near
            and role != whole.role[place]
        ]  # fmt: skip
        assert lost == [], at


@pytest.mark.slow
def test_an_additional_anchor_gives_no_wrong_layer() -> None:
    (recording,) = (one for one in recordings() if one.name == "jamba-eager")
    kept, added = inserted(351, list(range(len(whole_layers(recording)))), "u")
    wrong, _ = wrong_and_lost(recording, damaged(recording, kept, added), kept)
    assert wrong.tolist() == []


@pytest.mark.slow
def test_a_missing_first_projection_gives_no_wrong_layer() -> None:
    (recording,) = (one for one in recordings() if one.name == "deepseekv3_fp8-eager")
    stream, truth = main_stream(recording), whole_layers(recording)
    for at in np.flatnonzero(truth >= 0).tolist():
        if stream.letters[at - 2 : at + 1] == "nqg":
            kept, added = removed(at, list(range(len(truth))), "")
            wrong, _ = wrong_and_lost(recording, damaged(recording, kept, added), kept)
            assert wrong.tolist() == [], at


UNFUSED = [
    pytest.param(one, id=one.name)
    for one in recordings()
    if one.name in ("gemma2-eager", "qwen3next-eager")
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [removed, inserted, replaced])
@pytest.mark.parametrize("recording", UNFUSED)
def test_damage_within_a_norm_of_several_kernels_gives_no_wrong_layer(
    recording: Recording, damage: Damage
) -> None:
    """Two norms may follow each other, one of each layer, and look alike."""
    stream, kinds = main_stream(recording), chance(recording, "kinds")
    last = layers_of(stream)
    begin, end = int(last.start[-1]), int(last.end[-1])
    in_norms = [at for at in range(begin, end + 1) if "." in stream.letters[at - 1 : at + 2]]
    assert len(in_norms) > 20
    for at in in_norms:
        kept, added = damage(at, list(range(len(stream.letters))), kinds.choice("oesnmyqgvXL"))
        wrong, _ = wrong_and_lost(recording, damaged(recording, kept, added), kept)
        assert wrong.tolist() == [], at
