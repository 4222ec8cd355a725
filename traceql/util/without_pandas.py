"""Stops pyarrow from importing pandas, which takes 0.3 s, in programs that show no data frame."""

import sys
import warnings
from types import ModuleType


def leave_out_pandas() -> None:
    """For the rest of this process, pyarrow takes no values of pandas, unless pandas is there.

    pyarrow looks for pandas as soon as it converts a list, and again when it makes a frame.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    too_old = ModuleType("pandas")
    too_old.__dict__["__version__"] = "0"
    sys.modules["pandas"] = too_old
    warnings.filterwarnings("ignore", "pyarrow requires pandas")
    try:
        pa.array([0])
    finally:
        del sys.modules["pandas"]
