"""Kernels of a new name, in every pass of a recording: the layers stay."""

import pytest
from damage import damaged_recordings, whole_layers, wrong_and_lost
from recorded_layers import folded_letters, main_kernels, main_stream
from recordings import Recording

from traceql.analysis.layers.kernel_text import Stream, Trait, letters

# Layers of Mamba-2 have few kernels, so that one of them may be the border of a layer. In the other
# two, only the activation tells where an MLP is.
FRAGILE = {"mamba2-graph": "", "smollm3-graph": "mul_silu", "exaone4-eager": "act_and_mul"}
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
