"""Scans events with compiled code, as far as they are written as profilers write them."""

from traceql.readers.formats.kineto.scan.scanned import Coded, Scanned, ScannedEnds, ScannedSlices
from traceql.readers.formats.kineto.scan.scanner import Scanner, new_scanner

__all__ = ["Coded", "Scanned", "ScannedEnds", "ScannedSlices", "Scanner", "new_scanner"]
