"""Makes Arrow tables of Python rows without pandas.

pyarrow imports pandas, which takes longer than a comparison, as soon as it converts a Python value.
"""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO

import pyarrow as pa
import pyarrow.json as pj


def table_of(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """A table with these rows; each has a value for each column, which JSON can hold."""
    lines = [json.dumps(row, allow_nan=False) for row in rows]
    if not lines:
        # A file without rows cannot be read.
        lines = [json.dumps(dict.fromkeys(schema.names))]
    text = "\n".join(lines).encode()
    read = pj.read_json(
        BytesIO(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=max(len(text), 1)),
        parse_options=pj.ParseOptions(explicit_schema=schema),
    )
    return read.slice(0, len(rows))
