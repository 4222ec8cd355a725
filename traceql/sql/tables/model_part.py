# One row per role, layer and tensor-parallel size: what the configured model does there on one rank.
#
# The loaded ranks have one of these sizes; the others answer what another size would cost.
# @scope  run
# @needs  layout, model_config, run_file
# @empty_unless model_config
# @column tp                    BIGINT    Ranks that the tensors of a layer are split over.
# @column layer                 BIGINT    Model layer, from 0; NULL outside layers.
# @column role                  VARCHAR   Part of the model; as in kernel.
# @column formula               VARCHAR   Formula of its cost (cost_formula.formula).
# @column dtype                 VARCHAR   Whose peak its FLOPs count against (peak.dtype).
# @column rows_of               VARCHAR   What it has one row for: tokens, or logit_rows (see step_tokens).
# @column flops_per_row         BIGINT    FLOPs for each row.
# @column context_pair_flops    BIGINT    FLOPs for each pair of a query and a key of a prompt.
# @column generation_pair_flops BIGINT    FLOPs for each pair of a query and a key of a request that generates.
# @column weight_bytes          DOUBLE    Bytes of its weights, scales of quantization included; of all experts on the rank. NULL if unknown.
# @column gathered_bytes        BIGINT    Bytes of weights that each row reads: a row of the embedding.
# @column kv_read_elements      BIGINT    Elements of the KV cache that are read for each token in it.
# @column kv_written_elements   BIGINT    Elements of the KV cache that are written for each row.
# @column tensor_bytes          BIGINT[]  Bytes per row of each activation that it reads or writes.
# @column attention_window      BIGINT    Tokens that its attention sees at most; NULL without a limit.
# @column experts               BIGINT    Experts of the model in this layer, of which a row uses top_k; NULL unless it is a product of experts.
# @column top_k                 BIGINT    Experts that a row uses; NULL unless it is a product of experts.
# @column missing               VARCHAR   Why the bytes of its weights are unknown; NULL if they are known.

"""Lists the parts of the configured model."""

import json

import duckdb
import pyarrow as pa

from traceql.analysis.model.parts import Part, parts
from traceql.analysis.model.sizes import sizes
from traceql.analysis.model.weights import formats
from traceql.sql.definition import declared_schema

_SCHEMA = declared_schema(__file__)
_ASKED = (1, 2, 4, 8, 16)
_CONFIGURED = "SELECT document FROM model_config"
# Settings given to vLLM; the results of the engine's own defaults come first.
_SETTINGS = """
    SELECT
        NULLIF(COALESCE(
            document ->> '$.engine_config.model_config.dtype',
            document ->> '$.engine_arguments.dtype'
        ), 'auto'),
        COALESCE(
            document ->> '$.engine_config.model_config.quantization',
            document ->> '$.engine_arguments.quantization'
        )
    FROM run_file
    ORDER BY path
    LIMIT 1
"""
_SIZES = "SELECT DISTINCT tp_size FROM layout WHERE tp_size IS NOT NULL"


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    found = con.execute(_CONFIGURED).fetchall()
    if not found:
        return _SCHEMA.empty_table()
    document = json.loads(found[0][0])
    model = sizes(document)
    dtype, quantization = next(iter(con.execute(_SETTINGS).fetchall()), (None, None))
    stored = formats(document, dtype, quantization)
    if isinstance(model, str) or isinstance(stored, str):
        return _SCHEMA.empty_table()
    split = {tp for (tp,) in con.execute(_SIZES).fetchall()}
    by_tp = {tp: [*parts(model, stored, tp)] for tp in sorted(split.union(_ASKED))}
    values = zip(*(part for listed in by_tp.values() for part in listed), strict=True)
    fields = dict(zip(Part._fields, values, strict=True))
    columns = [
        [tp for tp, listed in by_tp.items() for _ in listed],
        *(
            fields[name]
            for name in (
                *("layer", "role", "formula", "dtype", "rows", "flops_per_row", "context_pair"),
                *("generation_pair", "weight_bytes", "gathered", "kv_read", "kv_written"),
                *("tensors", "window", "experts", "top_k", "missing"),
            )
        ),
    ]
    return pa.table(columns, schema=_SCHEMA)
