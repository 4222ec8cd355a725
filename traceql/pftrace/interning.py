"""Texts that are written once and then go by number, as Perfetto interns them."""

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import InternedData

from traceql.pftrace.octets import Numbers

EVENT_CATEGORY, EVENT_NAME = "event_categories", "event_names"
ANNOTATION_NAME, ANNOTATION_TEXT = "debug_annotation_names", "debug_annotation_string_values"
COLOUR = "correlation_id_str"
_IN_BYTES = {ANNOTATION_TEXT, COLOUR}  # InternedString rather than a message with a name


class Interning:
    """The numbers of all texts so far; what is new among them has to be written before its use."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._new = InternedData()

    def number(self, kind: str, text: str) -> int:
        """Its number, from 1; a number of its own in each kind."""
        found = self._numbers.get((kind, text))
        if found is None:
            found = self._numbers[kind, text] = len(self._numbers) + 1
            entry = getattr(self._new, kind).add(iid=found)
            if kind in _IN_BYTES:
                entry.str = text.encode()
            else:
                entry.name = text
        return found

    def numbers(self, kind: str, texts: pa.Array) -> Numbers:
        """The number of each text; 0 for NULL."""
        encoded = texts.dictionary_encode()
        of_each = [self.number(kind, text) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.fill_null(len(of_each)).to_numpy(zero_copy_only=False)
        found: Numbers = np.array([*of_each, 0], np.uint64)[indices]
        return found

    def take_new(self) -> InternedData | None:
        """What was numbered since the last call."""
        new, self._new = self._new, InternedData()
        return new if new.ByteSize() else None
