"""What data sheets state of a GPU, to compare with what was measured."""

import re
from collections.abc import Mapping

from traceql.analysis.peaks.rows import SHIPPED, PeakRow, peak_rows
from traceql.util.input_file import text


def data_sheet(device_name: str) -> Mapping[str, PeakRow]:
    """The row of each type of numbers; empty for a GPU that is not listed."""
    rows = peak_rows(SHIPPED, text(SHIPPED))
    return {row.dtype: row for row in rows if re.search(row.device, device_name)}
