"""Tables of a comparison that SQL alone does not make."""

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from traceql.runs.compare.alignment import aligned
from traceql.runs.compare.layers import layer_changes
from traceql.runs.compare.python_rows import table_of
from traceql.runs.compare.setup import Difference

_LAYERS = """
    WITH step AS (
        SELECT scope, SUM(base_ns + new_ns) / 2 AS ns FROM waterfall GROUP BY scope
    )
    SELECT layer.scope, role, LIST((layer, base_ns, new_ns) ORDER BY layer), ANY_VALUE(step.ns)
    FROM layer
    INNER JOIN step USING (scope)
    GROUP BY layer.scope, role
    ORDER BY layer.scope, role
"""
_UNNAMED = """
    SELECT stratum, side, LIST((name, profile_unnamed_kernel.ns) ORDER BY position)
    FROM profile_unnamed_kernel
    INNER JOIN total_run USING (side, run)
    GROUP BY stratum, side
"""
_LAYER_CHANGE = pa.schema(
    [
        ("scope", pa.string()),
        ("role", pa.string()),
        ("layers", pa.int64()),
        ("usual_pct", pa.float64()),
        ("low_pct", pa.float64()),
        ("high_pct", pa.float64()),
        (
            "apart",
            pa.list_(
                pa.struct(
                    [
                        ("layer", pa.int64()),
                        ("change_pct", pa.float64()),
                        ("base_ns", pa.float64()),
                        ("new_ns", pa.float64()),
                    ]
                )
            ),
        ),
    ]
)
_UNNAMED_KERNEL = pa.schema(
    [
        ("stratum", pa.string()),
        ("base", pa.list_(pa.string())),
        ("new", pa.list_(pa.string())),
        ("base_kernels", pa.int64()),
        ("new_kernels", pa.int64()),
        ("base_ns", pa.int64()),
        ("new_ns", pa.int64()),
    ]
)
_SETUP = pa.schema(
    [
        ("name", pa.string()),
        ("title", pa.string()),
        ("effect", pa.string()),
        ("reason", pa.string()),
        ("base", pa.list_(pa.string())),
        ("new", pa.list_(pa.string())),
    ]
)


def setup_rows(found: Sequence[Difference]) -> pa.Table:
    """One row per difference of the set-up."""
    rows = [vars(one) | {"effect": str(one.effect)} for one in found]
    return table_of(rows, _SETUP)


def layer_rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per scope and role: whether its layers moved alike."""
    scopes: dict[str, list[tuple[str, int, float, float]]] = {}
    steps: dict[str, float] = {}
    for scope, role, layers, step_ns in con.execute(_LAYERS).fetchall():
        steps[scope] = step_ns
        scopes.setdefault(scope, []).extend((role, *layer) for layer in layers)
    rows = [
        {
            "scope": scope,
            "role": one.role,
            "layers": one.layers,
            "usual_pct": 100 * one.usual,
            "low_pct": 100 * one.low,
            "high_pct": 100 * one.high,
            "apart": [
                {"layer": layer, "change_pct": 100 * change, "base_ns": base, "new_ns": new}
                for layer, change, base, new in one.apart
            ],
        }
        for scope, values in scopes.items()
        for one in layer_changes(values, steps[scope])
    ]
    return table_of(rows, _LAYER_CHANGE)


def unnamed_rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per stratum and kernels at one place: what became of kernels without a role."""
    sequences: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for stratum, side, kernels in con.execute(_UNNAMED).fetchall():
        sequences.setdefault(stratum, {})[side] = kernels
    rows = [
        {"stratum": stratum, **vars(one)}
        for stratum, sides in sorted(sequences.items())
        if len(sides) == 2
        for one in aligned(sides["base"], sides["new"])
    ]
    return table_of(rows, _UNNAMED_KERNEL)
