"""Statements for the ledger: about the job of a profile, and about the files of its rank."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from traceql.readers.dialects.ascend.metadata import least_world_size
from traceql.readers.dialects.ascend.vocabulary import Metadata
from traceql.readers.formats.ascend.layout import others_beside
from traceql.readers.scratch import Scratch

Statement = tuple[str, int, int, bool | None, str]  # check, value, total, ok, extra of its note
_FOLDER = Path(__file__).parent


def run_common(scratch: Scratch, form: str) -> None:
    """Defines what both forms share. Args: form: text or db."""
    set_variables(scratch, form=form, notes=str(_FOLDER / "statements.csv"))
    scratch.run(_FOLDER / "common.sql")


def set_variables(scratch: Scratch, **values: Any) -> None:
    for name, value in values.items():
        scratch.con.execute(f"SET VARIABLE {name} = $1", [value])


def state(scratch: Scratch, statements: Iterable[Statement]) -> None:
    for statement in statements:
        scratch.con.execute("INSERT INTO statement VALUES ($1, $2, $3, $4, $5)", [*statement])


def job_statements(
    path: Path, metadata: Mapping[str, Any], damaged: Sequence[str]
) -> Iterator[Statement]:
    """Whether the job is stated to be smaller than what ran in it; what else is beside the trace.

    Args:
        damaged: a sentence for each file that could not be used.
    """
    stated, least = metadata.get(Metadata.WORLD_SIZE), least_world_size(metadata)
    if stated is not None and stated < least:
        yield "statements of the number of ranks", stated, least, False, ""
    if others := others_beside(path):
        listed = ", ".join(other.name for other in others)
        yield "other traces of the rank", 0, len(others), None, f"{path.name}: {listed}"
    for reason in damaged:
        yield "file beside the trace", 0, 1, False, reason
