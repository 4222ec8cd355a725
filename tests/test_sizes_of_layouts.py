"""The sizes of tensor, pipeline and data parallelism, from the places that file names give."""

import gzip
import json
import re
from pathlib import Path

import pytest
from databases import EXAMPLES
from traces import kernel, write

import traceql
from traceql.analysis.collectives.layout import Layout, Operations, RankFacts, RankPosition, Sizes
from traceql.analysis.collectives.layout_inference import inferred_layout
from traceql.readers.dialects.facts import ProcessGroup

pytestmark = pytest.mark.slow

Places = dict[int, tuple[int, int, int]]  # tp, pp and dp of each rank
FIRST = {0: (0, 0, 0)}
ALL = list(range(8))
NOTHING = Sizes()


def found(
    named: Places,
    world: int,
    *groups: list[int],
    reduces_layers: bool = False,
    tensor_ranks: int | None = None,
    stated: Sizes = NOTHING,
) -> tuple[int | None, int | None, int | None]:
    """The sizes of tp, pp and dp."""
    listed = [ProcessGroup("", ranks, "undefined") for ranks in groups]
    facts = [
        RankFacts(rank, world, RankPosition(*place), None, [g for g in listed if rank in g.ranks])
        for rank, place in named.items()
    ]
    operations = Operations(reduces_layers, reduce_gradients=False, tensor_ranks=tensor_ranks)
    layout: Layout = inferred_layout(facts, {}, operations, stated)
    assert layout.places == {rank: RankPosition(*place) for rank, place in named.items()}
    return layout.tp, layout.pp, layout.dp


def test_a_lone_file_of_rank_0_leaves_all_sizes_open() -> None:
    assert found(FIRST, 8) == (None, None, None)
    assert found(FIRST, 1) == (1, 1, 1)


@pytest.mark.parametrize(
    ("named", "world", "sizes"),
    [
        ({0: (0, 0, 0), 1: (1, 0, 0)}, 2, (2, 1, 1)),
        ({0: (0, 0, 0), 1: (0, 1, 0)}, 2, (1, 2, 1)),
        ({0: (0, 0, 0), 1: (0, 0, 1)}, 2, (1, 1, 2)),
        ({0: (0, 0, 0), 1: (1, 0, 0)}, 8, (None, None, None)),  # 2, 4 or 8 tensor-parallel ranks
        ({5: (1, 0, 1)}, 8, (None, None, 2)),  # 4 ranks, or 2 stages of 2 ranks
        ({7: (3, 0, 1)}, 8, (4, 1, 2)),
        ({4: (0, 1, 0)}, 8, (4, 2, 1)),
        ({2: (0, 1, 0)}, 8, (2, None, None)),  # 4 stages, or 2 stages of 2 replicas
    ],
)
def test_sizes_are_those_for_which_places_give_the_ranks(
    named: Places, world: int, sizes: tuple[int | None, ...]
) -> None:
    assert found(named, world) == sizes


def test_sizes_that_fit_no_rank_are_known_if_each_place_has_its_file() -> None:
    assert found({0: (0, 0, 0), 3: (0, 0, 1)}, 2) == (1, 1, 2)
    assert found({3: (0, 0, 0), 1: (1, 0, 1)}, 4) == (None, None, None)


def test_process_groups_and_operations_decide_between_sizes() -> None:
    assert found(FIRST, 8, tensor_ranks=4) == (4, None, None)
    assert found(FIRST, 8, tensor_ranks=8) == (8, 1, 1)
    assert found(FIRST, 8, ALL) == (None, None, None)
    assert found(FIRST, 8, ALL, reduces_layers=True) == (8, 1, 1)
    stages_or_replicas = found(FIRST, 8, ALL, [0, 1, 2, 3], [0, 4], reduces_layers=True)
    assert stages_or_replicas == (4, None, None)
    assert found(FIRST, 8, ALL, [0, 1], [0, 2], [0, 4], [0, 1, 4, 5]) == (2, 2, 2)
    # Groups of another purpose: nothing is told.
    assert found(FIRST, 8, ALL, [0, 5]) == (None, None, None)


def test_sizes_in_run_json_decide_what_places_leave_open() -> None:
    assert found(FIRST, 8, stated=Sizes(tp=4, pp=1, dp=2)) == (4, 1, 2)
    assert found(FIRST, 8, stated=Sizes(tp=4)) == (4, None, None)  # 2 stages or 2 replicas
    assert found(FIRST, 8, stated=Sizes(tp=2, dp=2)) == (2, 2, 2)  # only 2 stages give 8 ranks
    # Megatron-LM counts replicas before stages: rank 4 of 2 x 2 x 2 is the first of stage 1.
    assert found({4: (0, 1, 0)}, 8, stated=Sizes(tp=2, pp=2, dp=2)) == (2, 2, 2)


def test_sizes_in_run_json_that_cannot_be_do_not_count() -> None:
    cannot = Sizes(tp=2, pp=1, dp=4)
    assert found(FIRST, 8, tensor_ranks=8, stated=cannot) == (8, 1, 1)
    assert found(FIRST, 8, ALL, reduces_layers=True, stated=cannot) == (8, 1, 1)
    assert found({4: (0, 1, 0)}, 8, stated=cannot) == (4, 2, 1)
    assert found(FIRST, 8, stated=Sizes(tp=2, pp=1, dp=2)) == (None, None, None)  # 4 ranks


@pytest.mark.parametrize(
    ("stated", "place"),
    [(Sizes(1, 4, 1), (0, 2, 0)), (Sizes(4, 1, 1), (2, 0, 0)), (Sizes(1, 1, 4), (0, 0, 2))],
)
def test_places_along_one_kind_of_parallelism_are_the_ranks(
    stated: Sizes, place: tuple[int, int, int]
) -> None:
    operations = Operations(reduce_layers=False, reduce_gradients=False)
    layout = inferred_layout([RankFacts(2, 4, None, None, [])], {}, operations, stated)
    assert (layout.places[2], layout.source) == (RankPosition(*place), "run.json")
    assert (layout.tp, layout.pp, layout.dp) == (stated.tp, stated.pp, stated.dp)


@pytest.mark.parametrize(
    ("name", "parallel", "places", "sizes", "check"),
    [
        ("open", {}, (0, 0, 0), (None, None, None), None),
        ("stated", {"tp": 2, "pp": 1, "dp": 2}, (0, 0, 0), (2, 1, 2), None),
        ("beyond", {"tp": 2, "pp": 1, "dp": 2}, (0, 1, 0), (None, None, None),
         (3, 4, "pp is 1, but a rank has the number 1 there")),
        ("product", {"tp": 4, "pp": 1, "dp": 2}, (0, 0, 0), (None, None, None),
         (3, 4, "world_size is 4, but tp x pp x dp is 8")),
    ],
)  # fmt: skip
def test_the_ledger_reports_sizes_in_run_json_that_cannot_be(
    name: str,
    parallel: dict[str, int],
    places: tuple[int, int, int],
    sizes: tuple[int | None, ...],
    check: tuple[int, int, str] | None,
    tmp_path: Path,
) -> None:
    """Rank 0 alone, of a run of 4."""
    write(tmp_path / name / "traces" / "rank0.json", kernel(ts=0, dur=1))
    tp, pp, dp = places
    entry = {"rank": 0, "trace": "traces/rank0.json", "tp_rank": tp, "pp_rank": pp, "dp_rank": dp}
    run = {"schema_version": 1, "status": "complete", "ranks": [entry]}
    run["parallel"] = parallel | {"world_size": 4}
    (tmp_path / name / "run.json").write_text(json.dumps(run))
    with traceql.open(traceql.load(tmp_path / name, tmp_path / "x.duckdb").database) as trace:
        (row,) = trace.select("SELECT tp_size, pp_size, dp_size FROM layout").rows()
        assert tuple(row.values()) == sizes
        failed = trace.sql("SELECT value, total, note FROM ledger WHERE NOT ok").rows()
    meaning = "sizes of parallelism in run.json that hold; all that it states; "
    expected = [(*check[:2], meaning + check[2])] if check else []
    assert [tuple(row.values()) for row in failed] == expected


def test_what_needs_an_open_size_is_unknown_and_says_so(tmp_path: Path) -> None:
    """A rank of four, as if it was one of eight whose communication says nothing of its group."""
    example = EXAMPLES / "qwen3-32b-tp4-graph-nccl"
    text = gzip.decompress((example / "rank0.pt.trace.json.gz").read_bytes()).decode()
    document = json.loads(re.sub(r'"(Group size|Process Group Ranks)"', r'"no \1"', text))
    document["distributedInfo"] |= {"world_size": 8, "pg_config": []}
    file = tmp_path / "dp0_pp0_tp0_rank0.pt.trace.json"
    file.write_text(json.dumps(document))
    loaded = traceql.load(file, tmp_path / "x.duckdb", model_config=example / "config.json")
    with traceql.open(loaded.database) as trace:
        cost = "SELECT DISTINCT flops, missing FROM cost WHERE role = 'qkv_proj'"
        missing = "number of tensor-parallel ranks"
        assert trace.select(cost).rows() == [{"flops": None, "missing": missing}]
        (total,) = (row for row in trace.run("whatif").rows() if row["kind"] == "total")
        assert "tensor-parallel size unknown: load all ranks" in total["warning"]
