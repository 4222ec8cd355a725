"""Reads a peaks.json."""

from pathlib import Path

from traceql.database.loading.peaks_document import PeaksDocument, peaks_document
from traceql.errors import PeaksInvalid
from traceql.util.input_file import Unusable, text


def peaks_file(path: Path) -> PeaksDocument:
    """What it holds.

    Raises:
        PeaksInvalid: it cannot be read or is not one; the message names it.
    """
    try:
        _, peaks = peaks_document(text(path))
    except Unusable as error:
        raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None
    return peaks
