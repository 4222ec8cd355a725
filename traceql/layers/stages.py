"""Which pipeline stage each rank is, and so which layers of the model it holds."""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb


@dataclass(frozen=True)
class Stage:
    """A rank's place in the pipeline; None where it is not known."""

    stage: int | None
    stages: int | None
    first_layer: int | None
    source: str


def stages(con: duckdb.DuckDBPyConnection, layers: Mapping[int, int]) -> dict[int, Stage]:
    """A Stage for each rank.

    From pp_rank where every file names it, else from the pattern: where ranks exchange activations
    and only some compute logits, these are the last stage, and stages follow each other in the
    order of ranks, as vLLM and Megatron lay them out. Not known where ranks are missing.

    Args:
        layers: how many layers each rank holds.
    """
    named = dict(con.execute("SELECT rank, pp_rank FROM trace").fetchall())
    if layers and all(named.get(rank) is not None for rank in layers):
        return _numbered({rank: named[rank] for rank in layers}, layers, "file names")
    exchanging = _ranks(con, "kernel.symbol = 'P' AND kernel_layer.layer IS NULL")
    if not exchanging:
        return {rank: Stage(0, 1, 0, "no pipeline") for rank in layers}
    with_logits = sorted(_ranks(con, "kernel_layer.role = 'lm_head'"))
    width = len(with_logits)
    whole = width and len(layers) % width == 0 and sorted(layers)[-width:] == with_logits
    if not whole or width == len(layers) or sorted(layers) != list(range(len(layers))):
        return {rank: Stage(None, None, None, "unknown pipeline split") for rank in layers}
    return _numbered(
        {rank: rank // width for rank in layers}, layers, "who computes logits, order of ranks"
    )


def _numbered(stage: Mapping[int, int], layers: Mapping[int, int], source: str) -> dict[int, Stage]:
    held = {stage[rank]: count for rank, count in layers.items()}
    count = max(held) + 1
    if set(held) != set(range(count)):
        return {
            rank: Stage(stage[rank], None, None, f"{source}; stages missing") for rank in layers
        }
    first = {number: sum(held[n] for n in range(number)) for number in held}
    return {rank: Stage(stage[rank], count, first[stage[rank]], source) for rank in layers}


def _ranks(con: duckdb.DuckDBPyConnection, condition: str) -> set[int]:
    rows = con.execute(f"""
        SELECT DISTINCT kernel.rank
        FROM kernel
        LEFT JOIN kernel_layer USING (id)
        WHERE {condition}
    """).fetchall()
    return {rank for (rank,) in rows}
