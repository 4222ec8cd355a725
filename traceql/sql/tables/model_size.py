# At most one row: the sizes of the configured model, and its numbers of parameters.
# @scope  run
# @needs  model_config, run_file
# @empty_unless model_config
# @column parameters            BIGINT   Number of parameters; NULL if the sizes are not known.
# @column active_parameters     BIGINT   Those that one token uses: of the experts, only the chosen ones; NULL if the sizes are not known.
# @column embedding_parameters  BIGINT   Those of the embedding and the output projection, one matrix if they are tied; NULL if the sizes are not known.
# @column hidden                BIGINT   Elements of one token's activations; NULL if the sizes are not known.
# @column heads                 BIGINT   Query heads of a layer; NULL if the sizes are not known.
# @column kv_heads              BIGINT   Key and value heads of a layer; NULL if the sizes are not known.
# @column head_dim              BIGINT   Elements of a head; NULL with latent attention, whose heads have several sizes, or if the sizes are not known.
# @column vocabulary            BIGINT   Tokens of the vocabulary; NULL if the sizes are not known.
# @column experts               BIGINT   Experts of a layer; NULL without any, or if the sizes are not known.
# @column top_k                 BIGINT   Experts that a token uses in a layer; NULL without any, or if the sizes are not known.
# @column element_bytes         BIGINT   Bytes of an element of the activations; NULL if the dtype is not known.
# @column missing               VARCHAR  What keeps the sizes or the dtype from being known; NULL if they are.

"""Takes the sizes from the configuration."""

import json
from typing import Any

import duckdb
import pyarrow as pa

from traceql.analysis.model.sizes import parameters, sizes
from traceql.analysis.model.weights import formats
from traceql.sql.definition import declared_schema

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


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    settings = con.execute(_SETTINGS).fetchone() or (None, None)
    found = con.execute(_CONFIGURED).fetchall()
    return pa.Table.from_pylist(
        [_row(json.loads(document), *settings) for (document,) in found], declared_schema(__file__)
    )


def _row(
    document: dict[str, Any], dtype: str | None, quantization: str | None
) -> dict[str, object]:
    model = sizes(document)
    stored = formats(document, dtype, quantization)
    element_bytes = None if isinstance(stored, str) else stored.plain.input_bytes
    if isinstance(model, str):
        return {"element_bytes": element_bytes, "missing": model}
    counted = parameters(model)
    return {
        "parameters": counted.total,
        "active_parameters": counted.active,
        "embedding_parameters": counted.embedding,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": None if model.latent else model.head_dim,
        "vocabulary": model.vocabulary,
        "experts": model.experts.count if model.experts else None,
        "top_k": model.experts.top_k if model.experts else None,
        "element_bytes": element_bytes,
        "missing": stored if isinstance(stored, str) else None,
    }
