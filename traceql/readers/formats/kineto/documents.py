"""Files of several JSON documents: Triton's Proton writes one for each stream, a line each."""

import re
from collections.abc import Iterable, Iterator

# The end of a document, and the start of the next one up to its events.
_SEAM = re.compile(rb'\]\s*\}\s*\{[^\[\]{}]*"traceEvents"\s*:\s*\[')
_SEAM_BYTES = 1 << 12  # of the longest seam

IS_FOLLOWED = "trailing characters"  # what the parser says of the end of the first document


def one_document(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The text of a file with the events of all its documents in the first of them."""
    kept = b""
    for piece in pieces:
        text = _SEAM.sub(b",", kept + piece)
        yield text[:-_SEAM_BYTES]
        kept = text[-_SEAM_BYTES:]
    yield kept
