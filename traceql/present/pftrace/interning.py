"""Interned texts: Perfetto stores a text once and then refers to it by a number."""

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import InternedData

from traceql.util.protobuf_wire import UInt64s

EVENT_CATEGORY, EVENT_NAME = "event_categories", "event_names"
ANNOTATION_NAME, ANNOTATION_TEXT = "debug_annotation_names", "debug_annotation_string_values"
COLOUR = "correlation_id_str"
_IN_BYTES = {ANNOTATION_TEXT, COLOUR}  # written as InternedString instead of a message with a name


class Interning:
    """The numbers of all texts so far. A new text must be written before packets refer to it."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._new = InternedData()

    def number(self, kind: str, text: str) -> int:
        """The number of a text, from 1. The same text of two kinds has two numbers."""
        found = self._numbers.get((kind, text))
        if found is None:
            found = self._numbers[kind, text] = len(self._numbers) + 1
            entry = getattr(self._new, kind).add(iid=found)
            if kind in _IN_BYTES:
                entry.str = text.encode()
            else:
                entry.name = text
        return found

    def numbers(self, kind: str, texts: pa.Array) -> UInt64s:
        """The number of each text; 0 for NULL."""
        encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        of_each = [self.number(kind, text) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.fill_null(len(of_each)).to_numpy(zero_copy_only=False)
        found: UInt64s = np.array([*of_each, 0], np.uint64)[indices]
        return found

    def take_new(self) -> InternedData | None:
        """The texts that are new since the last call; None if there are none."""
        new, self._new = self._new, InternedData()
        return new if new.ByteSize() else None
