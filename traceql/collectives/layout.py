"""How the ranks of a run share the model: tensor, pipeline and data parallel places."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

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
    """Where each rank is; sizes count ranks that were not loaded too."""

    places: Mapping[int, Place]
    tp: int
    pp: int
    dp: int
    source: str

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


def write_layout(con: duckdb.DuckDBPyConnection) -> Layout:
    """Finds the layout and writes it as table `layout`."""
    layout = _found(con)
    sizes = {"tp_size": layout.tp, "pp_size": layout.pp, "dp_size": layout.dp}
    rows = [
        {"rank": rank, "tp_rank": p.tp, "pp_rank": p.pp, "dp_rank": p.dp, "source": layout.source}
        | sizes
        for rank, p in sorted(layout.places.items())
    ]
    con.register("incoming", pa.Table.from_pylist(rows, _SCHEMA))
    con.execute("CREATE OR REPLACE TABLE layout AS FROM incoming")
    con.unregister("incoming")
    return layout


def _found(con: duckdb.DuckDBPyConnection) -> Layout:
    """Best evidence first; names say which parallelism, process groups only which ranks."""
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
    staged = {row[0]: row[5] or 0 for row in rows}
    groups = {row[0]: _tensor_group(row[0], row[6], staged) for row in rows}
    if rows and all(groups.values()):
        return _by_groups(staged, groups, world, "process groups of distributedInfo")
    return _by_stages(staged, world)


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


def _tensor_group(rank: int, metadata: str | None, staged: Mapping[int, int]) -> list[int]:
    """The smallest process group of neighbours that this rank is in, of one pipeline stage."""
    info = json.loads(metadata or "{}").get("distributedInfo") or {}
    found = [group.get("ranks") for group in info.get("pg_config") or []]
    shift = rank - info["rank"] if isinstance(info.get("rank"), int) else 0
    groups = [[r + shift for r in ranks] for ranks in found if _is_whole(ranks)]
    whole = [g for g in groups if len(g) > 1 and rank in g and g == list(range(g[0], g[-1] + 1))]
    one_stage = [g for g in whole if len({staged.get(r, staged[rank]) for r in g}) == 1]
    return min(one_stage, key=len, default=[rank] if groups else [])


def _is_whole(ranks: object) -> bool:
    """Whether it is a list of ranks: the profiler shortens long ones."""
    return isinstance(ranks, list) and bool(ranks) and all(isinstance(r, int) for r in ranks)


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
