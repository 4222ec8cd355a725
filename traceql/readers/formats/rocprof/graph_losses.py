"""What the ledger says about the launches of HIP graphs in a trace that names no graphs."""

from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.remarks import Remark


def graph_remarks(
    launches: npt.NDArray[np.int64], activities: npt.NDArray[np.int64]
) -> list[Remark]:
    """Statements about launches and activities by their correlations; none without launches."""
    with duckdb.connect() as con:
        con.register("launches", pa.table({"correlation": launches}))
        con.register(
            "activity", pa.table({"rank": np.zeros_like(activities), "correlation": activities})
        )
        con.execute("CREATE TEMP VIEW launch AS SELECT 0 AS rank, NULL AS graph, * FROM launches")
        con.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
        found = con.execute("SELECT check_name, value, total, ok, note FROM graph_remark")
        return [Remark(*row) for row in found.fetchall()]
