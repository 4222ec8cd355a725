# One row per device and type of numbers: what its data sheet states, or the user with `traceql load --peaks`.
#
# The patterns are tried in order, and all rows with the first that matches a device's name count.
# To look up a device that was not recorded, match its name or a part of `example`.
# @schema reference
# @scope  rank
# @needs  link, user_peak
# @column position      BIGINT   Order in which the patterns are tried, from 0; those of the user come first.
# @column own           BOOLEAN  Whether the user gave it with --peaks.
# @column device        VARCHAR  RE2 regular expression, which may match anywhere in the device's name.
# @column example       VARCHAR  Name of such a device; NULL if the user named none.
# @column dtype         VARCHAR  Type of the numbers that are multiplied: bf16 (also fp16), fp8, int8 or fp4 (mxfp4, nvfp4).
# @column tflops        DOUBLE   Dense peak, 1e12 floating-point operations per second; a multiply-add is two.
# @column hbm_gbps      DOUBLE   Peak of the memory, reading and writing together, 1e9 bytes per second.
# @column link_gbps     DOUBLE   Peak of the links to other devices in one direction, 1e9 bytes per second: fabric or bridge, else PCIe. Table communicator_link has that of a communicator.
# @column pair_gbps     DOUBLE   Peak between two devices where each pair has a link of its own (link.pair_gbps): n devices use (n-1) x pair_gbps; NULL where a pair has all of link_gbps.
# @column l2_bytes      BIGINT   Size of the last cache before the memory, bytes; NULL if unknown.
# @column memory_bytes  BIGINT   Size of the memory, bytes.
# @column kernel_ns     BIGINT   Duration of a kernel in a CUDA graph that has next to nothing to do, ns; NULL if it was not measured.
# @column source        VARCHAR  Document that states the peaks.

"""Adds the list that traceql brings, traceql/analysis/peaks/peaks.csv, to the rows that the user gave."""

import duckdb
import pyarrow as pa

from traceql.analysis.peaks.rows import SHIPPED, peak_rows
from traceql.util.files import read_text

# The list is `incoming`; its peaks of links are those of table link.
_LISTED = """
    WITH linked AS (
        SELECT
            device.example,
            COALESCE(
                arg_min(kind, kind.position) FILTER (kind.medium IN ('fabric', 'bridge')),
                arg_min(kind, kind.position) FILTER (kind.medium = 'pcie')
            ) AS best
        FROM (SELECT DISTINCT example FROM incoming) AS device
        INNER JOIN link AS kind ON kind.medium <> 'network' AND regexp_matches(device.example, kind.device)
        GROUP BY device.example
    ),
    listed AS (
        SELECT
            0 AS list,
            position,
            TRUE AS own,
            device, example, dtype, tflops, hbm_gbps, link_gbps,
            CAST(NULL AS DOUBLE) AS pair_gbps,
            l2_bytes, memory_bytes, kernel_ns, source
        FROM user_peak
        UNION ALL
        SELECT
            1 AS list,
            incoming.position,
            FALSE AS own,
            incoming.device, incoming.example, incoming.dtype, incoming.tflops, incoming.hbm_gbps,
            linked.best.peak_gbps AS link_gbps,
            linked.best.pair_gbps AS pair_gbps,
            incoming.l2_bytes, incoming.memory_bytes, incoming.kernel_ns, incoming.source
        FROM incoming
        LEFT JOIN linked USING (example)
    )
    SELECT
        row_number() OVER in_order - 1 AS position,
        * EXCLUDE (list, position)
    FROM listed
    WINDOW in_order AS (ORDER BY list, position)
    ORDER BY list, listed.position
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    con.register("incoming", _shipped())
    found = con.sql(_LISTED).to_arrow_table()
    con.unregister("incoming")
    return found


def _shipped() -> pa.Table:
    listed = enumerate(peak_rows(SHIPPED, read_text(SHIPPED)))
    return pa.Table.from_pylist([{"position": place, **vars(row)} for place, row in listed])
