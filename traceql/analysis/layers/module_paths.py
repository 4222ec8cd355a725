"""Paths of modules in SQL, and modules.csv: the rules that give the kernels of a module a role."""

import csv
from pathlib import Path

import pyarrow as pa

from traceql.analysis.layers.kernel_text import letter
from traceql.util.text import literal

_FILE = Path(__file__).with_name("modules.csv")
# Modules of an encoder, or of a model that drafts tokens.
_OTHER_MODEL = (
    r"(?i)vis(ion|ual)|vae|unet|audio|encoder(layer|model)?([./_]|$)"
    r"|(^|[./])(text_\d+|image\w*|draft\w*|eagle\w*|mtp)([./]|$)"
)
_LAYER = r"(?:^|[./])(?:layers|h|blocks)[./](\d+)(?:[./]|$)"

_SCHEMA = pa.schema(
    [
        ("priority", pa.int64()),  # of all rules that match, the one with the lowest number decides
        ("path_pattern", pa.string()),
        ("positions", pa.string()),  # a regular expression for module.position
        ("symbols", pa.list_(pa.string())),  # the letters; all symbols if there are none
        ("role", pa.string()),
    ]
)


def of_other_model(path: str) -> str:
    """SQL: whether the module with this path, an expression, does not belong to the decoder."""
    return f"regexp_matches({path}, {literal(_OTHER_MODEL)})"


def decoder_layer(path: str) -> str:
    """SQL: the layer number in the path of a module; NULL if it names no layer of the decoder."""
    number = f"regexp_extract({path}, {literal(_LAYER)}, 1)"
    return f"CASE WHEN NOT {of_other_model(path)} THEN TRY_CAST({number} AS BIGINT) END"


def module_roles() -> pa.Table:
    """The rules, one per row. Both patterns may match anywhere."""
    with _FILE.open(newline="", encoding="utf-8") as file:
        rules = [
            {
                "priority": int(row["priority"]),
                "path_pattern": row["path"],
                "positions": row["positions"],
                "symbols": [letter(name) for name in row["symbols"].split()],
                "role": row["role"],
            }
            for row in csv.DictReader(file)
        ]
    return pa.Table.from_pylist(rules, _SCHEMA)
