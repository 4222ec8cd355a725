"""The pipeline stage of each rank, by run.json, file names and operations; and what stays open."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from databases import rank_files

import traceql
from traceql.analysis.layers.layer_numbers import Evidence, Held, Stage, stages

HELD = 18  # layers of each rank


def found(
    named: Mapping[int, int | None],
    *,
    exchanging: tuple[int, ...] = (),
    with_logits: tuple[int, ...] = (),
    world: int = 2,
    stated: int | None = None,
    stated_layers: Mapping[int, Held] | None = None,
) -> dict[int, tuple[Any, ...]]:
    """Stage, number of stages, first layer and source of each rank."""
    known = Evidence(
        layers=dict.fromkeys(named, HELD),
        named=named,
        named_by="file names",
        exchanging=exchanging,
        with_logits=with_logits,
        world=world,
        stated=stated,
        stated_layers=stated_layers or {},
    )
    placed: dict[int, Stage] = stages(known)
    return {
        rank: (one.stage, one.stages, one.first_layer, one.source) for rank, one in placed.items()
    }


def test_the_first_stage_alone_is_not_taken_for_the_whole_model() -> None:
    unknown = (0, None, 0, "file names; number of stages unknown")
    assert found({0: 0}, exchanging=(0,)) == {0: unknown}
    # Nor if nothing states the size of the run, which then counts as that of the loaded ranks.
    assert found({0: 0}, exchanging=(0,), world=1) == {0: unknown}


def test_a_stage_that_exchanges_nothing_or_computes_logits_is_the_last_one() -> None:
    """A rank of a tensor-parallel run; and an instance that sends its KV cache elsewhere."""
    assert found({0: 0}, world=8) == {0: (0, 1, 0, "file names")}
    assert found({0: 0}, exchanging=(0,), with_logits=(0,)) == {0: (0, 1, 0, "file names")}
    alone = found({1: 1}, exchanging=(1,), with_logits=(1,))
    assert alone == {1: (1, 2, None, "file names; stages missing")}


def test_the_number_of_stages_in_run_json_counts() -> None:
    source = "file names; stages missing"
    assert found({0: 0}, stated=2) == {0: (0, 2, 0, source)}
    assert found({1: 1}, exchanging=(1,), stated=4) == {1: (1, 4, None, source)}
    assert found({0: None}, stated=2) == {0: (None, 2, None, "unknown pipeline split")}
    assert found({0: None}, stated=1) == {0: (0, 1, 0, "run.json")}


def test_a_number_of_stages_that_ranks_refute_does_not_count() -> None:
    beyond = found({1: 1}, exchanging=(1,), with_logits=(1,), stated=1)
    assert beyond == {1: (1, 2, None, "file names; stages missing")}
    goes_on = found({0: 0}, exchanging=(0,), stated=1)
    assert goes_on == {0: (0, None, 0, "file names; number of stages unknown")}


def test_first_layers_in_run_json_show_more_stages() -> None:
    of_run = {0: Held(0, HELD), 1: Held(HELD, HELD)}
    unknown = (0, None, 0, "file names; number of stages unknown")
    assert found({0: 0}, stated_layers=of_run) == {0: unknown}
    alone = found({1: 1}, with_logits=(1,), stated_layers=of_run)
    assert alone == {1: (1, 2, HELD, "file names; stages missing")}
    # Another number of layers than the rank runs is not about what it runs.
    odd = found({1: 1}, with_logits=(1,), stated_layers={1: Held(HELD, HELD + 1)})
    assert odd == {1: (1, 2, None, "file names; stages missing")}


def one_rank(folder: Path, rank: int, pp: int) -> Path:
    """The run directory of two stages of which one was kept, with the number of stages given."""
    trace = next(file.path for file in rank_files("qwen3-8b-pp2-graph") if file.rank == rank)
    (folder / "traces").mkdir(parents=True)
    (folder / "traces" / trace.name).symlink_to(trace)
    entry = {
        "rank": rank, "tp_rank": 0, "pp_rank": rank, "dp_rank": 0, "first_layer": 18 * rank,
        "layers": 18, "trace": f"traces/{trace.name}",
    }  # fmt: skip
    config = {"model_type": "qwen3", "num_hidden_layers": 36}
    run = {
        "schema_version": 1, "status": "complete", "ranks": [entry], "model_config": config,
        "parallel": {"tp": 1, "pp": pp, "dp": 1, "ep": False, "world_size": 2},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    return folder


CHECKS = """
    SELECT check_name, value, total, ok FROM ledger
    WHERE check_name IN ('layers of the model', 'sizes in run.json') ORDER BY check_name
"""


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_recorded_stage_alone_is_one_of_two(rank: int, tmp_path: Path) -> None:
    run = one_rank(tmp_path / "run", rank, pp=2)
    with traceql.open(traceql.load(run, tmp_path / "x.duckdb").database) as trace:
        found = trace.select("SELECT stage, stages, first_layer FROM rank_model").rows()
        assert found == [{"stage": rank, "stages": 2, "first_layer": 18 * rank}]
        layers = trace.sql("SELECT DISTINCT layer FROM kernel WHERE layer IS NOT NULL ORDER BY 1")
        assert [row["layer"] for row in layers] == list(range(18 * rank, 18 * rank + 18))
        sizes = trace.select("SELECT tp_size, pp_size, dp_size FROM layout").rows()
        assert sizes == [{"tp_size": 1, "pp_size": 2, "dp_size": 1}]
        checks = [tuple(row.values()) for row in trace.sql(CHECKS)]
        assert checks == [("layers of the model", 18, 36, None)]
