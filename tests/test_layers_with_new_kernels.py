"""Kernels of a new name, in every pass of a recording: the layers stay."""

import pytest
from damage import UNKNOWN, damaged, damaged_recordings, whole_layers, wrong_and_lost
from letters import layers_of
from recorded_layers import folded_letters, main_kernels, main_stream
from recordings import Recording

from traceql.layers.stream import Stream
from traceql.layers.symbols import Trait, letters

# Layers of Mamba-2 have few kernels, so that one of them may be the border of a layer. In the other
# two, only the activation tells where an MLP is.
FRAGILE = {"mamba2-graph": "", "smollm3-graph": "mul_silu", "exaone4-eager": "act_and_mul"}
# Their layers begin with a product, which is the first kernel after the embedding.
POST_NORM = ("olmo2", "exaone4")
ANCHORS = letters(Trait.ANCHORS_LAYER)


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


@pytest.mark.parametrize("instead", ["", UNKNOWN, "e", "E"])
@pytest.mark.parametrize("recording", damaged_recordings(without=POST_NORM))
def test_first_layers_without_their_norm_make_no_layer_wrong(
    recording: Recording, instead: str
) -> None:
    """As if it was fused with the embedding, or had a name of its own."""
    stream = main_stream(recording)
    found = layers_of(stream)
    norms: set[int] = set()
    for start in found.start[found.number == 0].tolist():
        size = len(stream.letters[start + 1 :]) - len(stream.letters[start + 1 :].lstrip("."))
        norms.update(range(start, start + 1 + size))
    assert {stream.letters[at] for at in norms} <= {"n", "."}
    everything = range(len(stream.letters))
    kept = [at for at in everything if instead or at not in norms]
    added = dict.fromkeys(norms, instead) if instead else {}
    wrong, _ = wrong_and_lost(recording, damaged(recording, kept, added), kept)
    assert wrong.tolist() == []
