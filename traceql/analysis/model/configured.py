"""The sizes of the configured models, and the formats of their weights."""

import json
from collections.abc import Iterator

import duckdb

from traceql.analysis.model.sizes import Sizes, sizes
from traceql.analysis.model.weights import Formats, formats

_CONFIGURED = "SELECT document FROM model_config"
# The type of numbers and the quantization that vLLM was given.
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


def configured_models(
    con: duckdb.DuckDBPyConnection,
) -> Iterator[tuple[Sizes | str, Formats | str]]:
    """The sizes and the formats of each model; a text has what keeps them from being known."""
    settings = con.execute(_SETTINGS).fetchone() or (None, None)
    for (text,) in con.execute(_CONFIGURED).fetchall():
        document = json.loads(text)
        yield sizes(document), formats(document, *settings)
