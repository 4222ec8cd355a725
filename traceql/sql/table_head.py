"""The head of a file that defines a table, and the Arrow schema that it declares."""

from pathlib import Path

import pyarrow as pa

from traceql.errors import DefinitionInvalid
from traceql.util.comment_head import CommentHead, comment_head, described_columns

_TAGS = ("kind", "schema", "scope", "needs", "empty_unless", "column")
_ARROW_TYPES = {
    "BIGINT": pa.int64(),
    "BIGINT[]": pa.list_(pa.int64()),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "MAP(VARCHAR, DOUBLE)": pa.map_(pa.string(), pa.float64()),
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
}


def table_head(path: Path, source: str) -> CommentHead:
    """The head of a SQL or Python file with this text.

    Raises:
        QueryInvalid: there is none, or it has another tag; the message quotes the line.
    """
    mark = "#" if path.suffix == ".py" else "--"
    return comment_head(path.name, source, _TAGS, mark=mark)


def declared_schema(file: str) -> pa.Schema:
    """The Arrow schema of the columns that a Python file declares in its head."""
    path = Path(file)
    head = table_head(path, path.read_text(encoding="utf-8"))
    columns = described_columns(path.name, head)
    for column in columns:
        if column.type not in _ARROW_TYPES:
            known = ", ".join(_ARROW_TYPES)
            raise DefinitionInvalid(f"{path}: {column.name} is {column.type}, not one of {known}")
    return pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in columns])
