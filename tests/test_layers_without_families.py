"""Layers are found without the family of their model; short recordings of it have right layers."""

from pathlib import Path

import pytest
from recorded_layers import streams
from recordings import Recording, load_without_modules, recordings

import traceql
from traceql.analysis.layers import families
from traceql.analysis.layers.attribution import Model, attributed

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
    file = families.FAMILIES / f"{name}.toml"
    (folder / "families" / file.name).write_text(file.read_text())
    monkeypatch.setattr("traceql.analysis.layers.families.FAMILIES", folder / "families")


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
    database, _ = load_without_modules(recording, tmp_path, configured=True)
    with traceql.open(database) as trace:
        (model,) = trace.select("SELECT family, layers FROM rank_model").rows()
        assert model == {"family": None, "layers": recording.layers}
        sources = "SELECT DISTINCT layer_source FROM kernel WHERE layer IS NOT NULL"
        assert trace.sql(sources).rows() == [{"layer_source": "repetition"}]
