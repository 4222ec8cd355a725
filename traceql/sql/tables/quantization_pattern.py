# One row per pattern of kernel names that show how the weights of products are quantized.
#
# Kernels of attention and of the KV cache are not compared: their types are those of the cache.
# @schema reference
# @scope  rank
# @column position  BIGINT   Place in the list, from 0.
# @column weights   VARCHAR  What a kernel of such a name is a sign of: fp8 or int8 (products of this type), or packed (narrower weights than the type of the products).
# @column pattern   VARCHAR  RE2 regular expression, which may match anywhere in the kernel's name.
# @column example   VARCHAR  A kernel name that matches.
# @column note      VARCHAR  What such kernels do.

"""Reads quantization_pattern.csv, beside this file."""

import duckdb
import pyarrow as pa

from traceql.sql.definition import csv_table


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return csv_table(__file__)
