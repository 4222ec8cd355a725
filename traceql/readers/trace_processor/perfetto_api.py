"""Imports the official Perfetto API without pandas and polars.

The API imports both at once, for `as_pandas_dataframe` and `as_polars_dataframe`, which would slow
down every start by half a second. Here they are imported when one of those methods is called.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _OnDemand(ModuleType):
    """A module that is imported when one of its attributes is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # another thread asks while the API is imported
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _imported_on_demand(*names: str) -> Iterator[None]:
    absent = [name for name in names if name not in sys.modules and importlib.util.find_spec(name)]
    sys.modules.update({name: _OnDemand(name) for name in absent})
    try:
        yield
    finally:
        for name in absent:
            if isinstance(sys.modules.get(name), _OnDemand):
                del sys.modules[name]


with _imported_on_demand("pandas", "polars"):
    from perfetto.common.exceptions import PerfettoException
    from perfetto.trace_processor import api
    from perfetto.trace_processor.backend import TraceProcessorBackend

__all__ = ["PerfettoException", "TraceProcessorBackend", "api"]
