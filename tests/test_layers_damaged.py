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
from recordings import Recording

from traceql.analysis.layers.kernel_text import Trait, letters

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
