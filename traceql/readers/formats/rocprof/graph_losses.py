"""What the ledger says about the launches of HIP graphs in a trace that names no graphs."""

from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.scratch import MACROS
from traceql.readers.tables import Remark


def graph_remarks(
    launches: npt.NDArray[np.int64], activities: npt.NDArray[np.int64]
) -> list[Remark]:
    """Statements about launches and activities by their correlations; none without launches."""
    with duckdb.connect() as con:
        for name, correlation in (("launches", launches), ("activities", activities)):
            con.register(name, pa.table({"correlation": correlation}))
        con.execute("CREATE TEMP VIEW launch AS SELECT 0 AS rank, NULL AS graph, * FROM launches")
        con.execute("CREATE TEMP VIEW activity AS SELECT 0 AS rank, * FROM activities")
        for script in (MACROS, Path(__file__).with_suffix(".sql")):
            con.execute(script.read_text(encoding="utf-8"))
        found = con.execute("SELECT check_name, value, total, ok, note FROM graph_remark")
        return [Remark(*row) for row in found.fetchall()]
