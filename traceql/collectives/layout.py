"""How the ranks of a run share the model: tensor, pipeline and data parallel places."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import duckdb
import pyarrow as pa

from traceql.collectives.process_groups import ProcessGroup, distributed_info

_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("rank", "tp_rank", "pp_rank", "dp_rank")),
        *((name, pa.int64()) for name in ("tp_size", "pp_size", "dp_size")),
        ("source", pa.string()),
    ]
)


@dataclass(frozen=True)
class Place:
    """A rank's position in each kind of parallelism, from 0."""

    tp: int
    pp: int
    dp: int


@dataclass(frozen=True)
class Layout:
    """Where each rank is; sizes count ranks that were not loaded too.

    Ranks of one stage that communicate are in the places of tensor-parallel ranks, whatever they
    share: `shared` says whether that is known to be the tensors, or only the work, as replicas do.
    """

    places: Mapping[int, Place]
    tp: int
    pp: int
    dp: int
    source: str
    shared: Literal["tensors", "work"] | None = "tensors"
    stages_known: bool = True

    def tp_peers(self, rank: int) -> list[int]:
        """Loaded ranks that hold the same layers for the same requests, this one included."""
        own = self.places[rank]
        return [r for r, p in self.places.items() if (p.pp, p.dp) == (own.pp, own.dp)]

    def ep_peers(self, rank: int) -> list[int]:
        """Loaded ranks over which the experts of the same layers are spread."""
        return [r for r, p in self.places.items() if p.pp == self.places[rank].pp]

    def stage_peer(self, rank: int, step: int) -> int | None:
        """The rank at the same place `step` pipeline stages later; None where it is not loaded."""
        own = self.places[rank]
        wanted = Place(own.tp, own.pp + step, own.dp)
        return next((r for r, p in self.places.items() if p == wanted), None)

    def row(self, rank: int) -> dict[str, object]:
        """What is known of a rank, as a row of table `layout`."""
        own = self.places[rank]
        known: dict[str, object] = {"rank": rank, "source": self.source}
        if self.stages_known:
            known |= {"pp_rank": own.pp, "pp_size": self.pp}
        if self.shared == "tensors":
            known |= {"tp_rank": own.tp, "tp_size": self.tp}
            known |= {"dp_rank": own.dp, "dp_size": self.dp}
        elif self.shared == "work":
            known |= {"tp_rank": 0, "tp_size": 1}
            known |= {"dp_rank": own.dp * self.tp + own.tp, "dp_size": self.dp * self.tp}
        return known


def write_layout(con: duckdb.DuckDBPyConnection) -> Layout:
    """Finds the layout and writes it as table `layout`."""
    layout = _found(con)
    rows = [layout.row(rank) for rank in sorted(layout.places)]
    con.register("incoming", pa.Table.from_pylist(rows, _SCHEMA))
    con.execute("CREATE OR REPLACE TABLE layout AS FROM incoming")
    con.unregister("incoming")
    return layout


def _found(con: duckdb.DuckDBPyConnection) -> Layout:
    """Best evidence first; names say which parallelism, process groups mostly only which ranks."""
    rows = con.execute("""
        SELECT trace.rank, world_size, tp_rank, pp_rank, dp_rank, stage, metadata
        FROM trace
        LEFT JOIN rank_model USING (rank)
        ORDER BY trace.rank
    """).fetchall()
    world = max((row[1] or 0 for row in rows), default=0)
    of_run = _of_run(con)
    if rows and all(row[0] in of_run for row in rows):
        return _sized({row[0]: of_run[row[0]] for row in rows}, world, "run.json")
    if rows and all(None not in row[2:5] for row in rows):
        named = {row[0]: Place(tp=row[2], pp=row[3], dp=row[4]) for row in rows}
        return _sized(named, world, "file names")
    listed = {row[0]: distributed_info(row[0], row[6]).groups for row in rows}
    described = _by_descriptions(listed, world)
    if described is not None:
        return described
    staged = {row[0]: row[5] or 0 for row in rows}
    groups = {rank: _tensor_group(rank, listed[rank], staged) for rank in listed}
    if rows and all(groups.values()):
        layout = _by_groups(staged, groups, world, "process groups of distributedInfo")
    else:
        layout = _by_stages(staged, world)
    stages_known = all(row[5] is not None for row in rows) or world <= 1
    return _of_known_kind(con, replace(layout, stages_known=stages_known), listed)


def _of_run(con: duckdb.DuckDBPyConnection) -> dict[int, Place]:
    places = {}
    for (document,) in con.execute("SELECT document FROM run_file").fetchall():
        for facts in json.loads(document).get("ranks") or []:
            values = [facts.get(name) for name in ("rank", "tp_rank", "pp_rank", "dp_rank")]
            if all(isinstance(value, int) for value in values):
                rank, tp, pp, dp = values
                places[rank] = Place(tp=tp, pp=pp, dp=dp)
    return places


def _sized(places: dict[int, Place], world: int, source: str) -> Layout:
    """Sizes that place every rank where it is: rank = (dp x PP + pp) x TP + tp, as vLLM counts."""
    least = Place(*(1 + max(getattr(p, k) for p in places.values()) for k in ("tp", "pp", "dp")))
    fitting = [
        Place(tp, pp, world // (tp * pp))
        for tp in range(world, least.tp - 1, -1)
        for pp in range(least.pp, world // tp + 1)
        if world % (tp * pp) == 0 and world // (tp * pp) >= least.dp
    ]
    for size in fitting:
        if all(r == (p.dp * size.pp + p.pp) * size.tp + p.tp for r, p in places.items()):
            return Layout(places, size.tp, size.pp, size.dp, source)
    return Layout(places, least.tp, least.pp, least.dp, source)


# As Megatron-LM and the device meshes of PyTorch describe process groups.
_DESCRIPTIONS = {
    "tp": re.compile(r"^(mesh_)?(tp|tensor(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "pp": re.compile(r"^(mesh_)?(pp|pipeline(_model)?_parallel(_group)?)$", re.IGNORECASE),
    "dp": re.compile(r"^(mesh_)?(dp|ddp|fsdp|data_parallel(_group)?)$", re.IGNORECASE),
}


def _by_descriptions(listed: Mapping[int, list[ProcessGroup]], world: int) -> Layout | None:
    """None where the described groups of any rank do not account for all ranks of the run."""
    places, sizes = {}, set()
    for rank, groups in listed.items():
        own = {kind: _described(rank, groups, kind) for kind in _DESCRIPTIONS}
        size = Place(**{kind: len(ranks) for kind, ranks in own.items()})
        if world <= 1 or size.tp * size.pp * size.dp != world:
            return None
        places[rank] = Place(**{kind: ranks.index(rank) for kind, ranks in own.items()})
        sizes.add(size)
    if len(sizes) != 1:
        return None
    size = sizes.pop()
    return Layout(places, size.tp, size.pp, size.dp, "descriptions of process groups")


def _described(rank: int, groups: Iterable[ProcessGroup], kind: str) -> list[int]:
    """A rank's group of one kind of parallelism; the rank alone where none is described."""
    return next(
        (g.ranks for g in groups if rank in g.ranks and _DESCRIPTIONS[kind].match(g.description)),
        [rank],
    )


def _tensor_group(
    rank: int, listed: Iterable[ProcessGroup], staged: Mapping[int, int]
) -> list[int]:
    """The smallest process group of neighbours that this rank is in, of one pipeline stage."""
    groups = [group.ranks for group in listed]
    whole = [g for g in groups if len(g) > 1 and rank in g and g == list(range(g[0], g[-1] + 1))]
    one_stage = [g for g in whole if len({staged.get(r, staged[rank]) for r in g}) == 1]
    return min(one_stage, key=len, default=[rank] if groups else [])


def _by_groups(
    staged: Mapping[int, int], groups: Mapping[int, list[int]], world: int, source: str
) -> Layout:
    width = max(map(len, groups.values()))
    replicas = sorted({(staged[rank], groups[rank][0]) for rank in staged})
    places = {}
    for rank, stage in staged.items():
        first = groups[rank][0]
        of_stage = [start for at, start in replicas if at == stage]
        places[rank] = Place(tp=rank - first, pp=stage, dp=of_stage.index(first))
    stages = 1 + max(staged.values())
    return Layout(places, width, stages, max(1, world // (width * stages)), source)


def _by_stages(staged: Mapping[int, int], world: int) -> Layout:
    """Ranks of one stage share its layers, as far as the pattern of operations tells."""
    stages = 1 + max(staged.values(), default=0)
    places = {
        rank: Place(tp=_position(rank, (r for r in staged if staged[r] == stage)), pp=stage, dp=0)
        for rank, stage in staged.items()
    }
    source = "pattern of operations" if stages > 1 else "ranks of the run"
    return Layout(places, max(1, world // stages), stages, 1, source)


def _position(rank: int, ranks: Iterable[int]) -> int:
    return sorted(ranks).index(rank)


def _of_known_kind(
    con: duckdb.DuckDBPyConnection, layout: Layout, listed: Mapping[int, list[ProcessGroup]]
) -> Layout:
    """Which ranks communicate is not yet what for: only operations tell."""
    if layout.tp * layout.dp == 1 or _exists(con, _REDUCED_LAYERS):
        return layout
    if _exists(con, _REDUCED_GRADIENTS) and all(map(_is_one_group, listed.values())):
        source = f"{layout.source}, DistributedDataParallel"
        return replace(layout, shared="work", stages_known=True, source=source)
    return replace(layout, shared=None, source=f"{layout.source}; kind of parallelism unknown")


# Tensor parallel: sums over ranks inside layers.
_REDUCED_LAYERS = """
    FROM kernel
    WHERE category = 'collective' AND role IN ('attn_allreduce', 'mlp_allreduce')
"""
# Data parallel: PyTorch copies gradients into buckets, of which it takes the mean over replicas.
_REDUCED_GRADIENTS = """
    FROM slice
    WHERE name = 'torch.distributed.ddp.reducer::copy_bucket_to_grad'
        OR name = 'DistributedDataParallel.forward'
"""


def _exists(con: duckdb.DuckDBPyConnection, rows: str) -> bool:
    return bool(con.execute(f"SELECT EXISTS ({rows})").fetchall()[0][0])


def _is_one_group(listed: Iterable[ProcessGroup]) -> bool:
    """Whether a rank is told of, and all its groups are of the same ranks: no second dimension."""
    return len({tuple(group.ranks) for group in listed if len(group.ranks) > 1}) == 1
