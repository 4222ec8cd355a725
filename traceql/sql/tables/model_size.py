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

import duckdb
import pyarrow as pa

from traceql.analysis.model.configured import configured_models
from traceql.analysis.model.sizes import parameters
from traceql.sql.definition import declared_schema


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed: list[dict[str, object]] = []
    for model, stored in configured_models(con):
        row: dict[str, object] = {
            "element_bytes": None if isinstance(stored, str) else stored.plain.input_bytes,
            "missing": stored if isinstance(stored, str) else None,
        }
        if isinstance(model, str):
            row["missing"] = model
        else:
            counted = parameters(model)
            row |= {
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
            }
        listed.append(row)
    return pa.Table.from_pylist(listed, declared_schema(__file__))
