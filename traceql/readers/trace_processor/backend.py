"""The official Perfetto API on top of the bundled engine or a native one."""

import dataclasses
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from traceql.errors import EngineError
from traceql.readers.trace_processor.arrow import last_line
from traceql.readers.trace_processor.bundled import APPEND_BYTES, append_header, pieces, query_bytes
from traceql.readers.trace_processor.module_cache import TRACE_PROCESSOR_VARIABLE, native_binary
from traceql.readers.trace_processor.wasm import WasmEngine


class _OnDemand(ModuleType):
    """A module that is imported when one of its attributes is first used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:  # in another thread
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


class BundledBackend(TraceProcessorBackend):  # type: ignore[misc]  # perfetto has no types
    """Sends TraceProcessorRpc messages to an engine inside this process."""

    def __init__(self, protos: Any) -> None:
        super().__init__(protos)
        self._engine = WasmEngine()

    @property
    def memory_bytes(self) -> int:
        """The memory that the engine has allocated so far."""
        return self._engine.memory_bytes

    def execute_query(self, query: str) -> Any:
        """A QueryResult with all batches; its field `error` reports an error in `query`."""
        return self.protos.QueryResult.FromString(self.query_bytes(query))

    def query_bytes(self, query: str) -> bytes:
        """The same QueryResult as bytes: the engine's partial results, which protobuf can merge."""
        return query_bytes(self._engine, query)

    def compute_metric(self, metrics: list[str]) -> Any:
        """A ComputeMetricResult."""
        arguments = self.protos.ComputeMetricArgs(metric_names=metrics)
        return self._reply("TPM_COMPUTE_METRIC", compute_metric_args=arguments).metric_result

    def trace_summary(
        self,
        specs: list[str | bytes],
        metric_ids: list[str] | None = None,
        metadata_query_id: str | None = None,
    ) -> Any:
        """A TraceSummaryResult, of all metrics in `specs` if `metric_ids` is None."""
        arguments = self.protos.TraceSummaryArgs()
        if metric_ids is None:
            arguments.computation_spec.run_all_metrics = True
        else:
            arguments.computation_spec.metric_ids.extend(metric_ids)
        for spec in specs or []:
            if isinstance(spec, str):
                arguments.textproto_specs.append(spec)
            else:
                arguments.proto_specs.append(self.protos.TraceSummarySpec.FromString(spec))
        if metadata_query_id is not None:
            arguments.computation_spec.metadata_query_id = metadata_query_id
        arguments.output_format = self.protos.TraceSummaryArgs.Format.BINARY_PROTOBUF
        reply = self._reply("TPM_SUMMARIZE_TRACE", trace_summary_args=arguments)
        return reply.trace_summary_result

    def enable_metatrace(self) -> bytes:
        """Starts recording a trace of the engine itself."""
        self._replies("TPM_ENABLE_METATRACE")
        return b""

    def disable_and_read_metatrace(self) -> Any:
        """A DisableAndReadMetatraceResult."""
        return self._reply("TPM_DISABLE_AND_READ_METATRACE").metatrace

    def export(self, output_file: BinaryIO, export_format: str) -> None:
        """Raises EngineError: the bundled engine is older than v58, which introduced exports."""
        raise EngineError(
            f"the bundled trace processor cannot export {export_format}; "
            "set TRACEQL_TRACE_PROCESSOR to a native trace_processor_shell of v58 or later"
        )

    def parse(self, chunk: bytes | memoryview) -> Any:
        """An AppendTraceDataResult; its field `error` has the reason for a rejected trace."""
        result = self.protos.AppendTraceDataResult()
        data = memoryview(chunk).cast("B")
        for start in range(0, len(data), APPEND_BYTES):
            piece = data[start : start + APPEND_BYTES]
            (reply,) = self._messages(self._engine.request(append_header(len(piece)), piece))
            result = reply.append_result
            if result.error:
                break
        return result

    def notify_eof(self) -> None:
        """Finishes the trace before the first query."""
        error = self._reply("TPM_FINALIZE_TRACE_DATA").finalize_data_result.error
        if error:
            raise api.TraceProcessorException(f"Failed while finishing the trace: {error}")

    def status(self) -> Any:
        """A StatusResult, with the engine's version and the name of the trace."""
        return self._reply("TPM_GET_STATUS").status

    def close(self) -> None:
        """Frees all memory of the engine."""
        self._engine.close()

    def _reply(self, method: str, **arguments: Any) -> Any:
        (reply,) = self._replies(method, **arguments)
        return reply

    def _replies(self, method: str, **arguments: Any) -> list[Any]:
        return self._messages(self._engine.request(self._request(method, **arguments)))

    def _request(self, method: str, **arguments: Any) -> bytes:
        rpc = self.protos.TraceProcessorRpc(request=method, **arguments)
        return bytes(self.protos.TraceProcessorRpcStream(msg=[rpc]).SerializeToString())

    def _messages(self, reply: bytes) -> list[Any]:
        messages = list(self.protos.TraceProcessorRpcStream.FromString(reply).msg)
        for message in messages:
            if message.fatal_error:
                raise EngineError(f"the trace processor stopped: {last_line(message.fatal_error)}")
            if message.HasField("invalid_request"):
                raise EngineError(
                    "the bundled trace processor does not know this request; "
                    "set TRACEQL_TRACE_PROCESSOR to a newer native trace_processor_shell"
                )
        return messages


_SHELL_OPTIONS = (
    *("add_sql_packages", "enable_dev_features", "enable_sql_file_access", "extra_flags"),
    "fetch_latest_trace_processor",
)


class TraceProcessor(api.TraceProcessor):  # type: ignore[misc]  # perfetto has no types
    """`perfetto.trace_processor.TraceProcessor`, which uses the bundled engine by default.

    `addr`, `remote` or `config.bin_path` select another engine.
    """

    config: Any

    def query_bytes(self, query: str) -> bytes:
        """A serialised QueryResult, for decoding in bulk without protobuf's objects."""
        backend = self._backend
        if isinstance(backend, BundledBackend):
            return backend.query_bytes(query)
        return bytes(backend.execute_query(query).SerializeToString())

    def _create_backend(self, remote: str | None, addr: str | None) -> Any:
        if remote or addr:
            return super()._create_backend(remote, addr)
        if self.config.bin_path:
            # The Perfetto API would look up a bare name in PATH.
            exact = str(Path(self.config.bin_path).absolute())
            self.config = dataclasses.replace(self.config, bin_path=exact)
            return super()._create_backend(remote, addr)
        for option in _SHELL_OPTIONS:
            if getattr(self.config, option):
                raise EngineError(
                    f"{option} needs a native trace_processor_shell; set bin_path to one"
                )
        return BundledBackend(self.protos)


def open_trace_processor(
    feed: Iterable[bytes] | str | Path | None = None,
    *,
    trace_processor: str | Path | None = None,
) -> TraceProcessor:
    """A trace processor that has loaded `feed`.

    Args:
        feed: a trace file, or its bytes in pieces of any size.
        trace_processor: a native `trace_processor_shell` to use instead of the bundled one; by
            default that of the environment variable TRACEQL_TRACE_PROCESSOR.

    Raises:
        EngineError: the engine does not start or rejects the trace.
    """
    native = native_binary(trace_processor)
    tp = _native(Path(native)) if native else TraceProcessor()
    if feed is None:
        return tp
    try:
        _load(tp, feed)
    except BaseException:
        tp.close()
        raise
    return tp


def _native(binary: Path) -> TraceProcessor:
    choice = (
        f"set {TRACE_PROCESSOR_VARIABLE} to a native trace_processor_shell, "
        "or unset it to use the bundled one"
    )
    binary = binary.expanduser()
    if not binary.is_file():
        raise EngineError(f"no trace processor at {binary}; {choice}")
    if not os.access(binary, os.X_OK):
        raise EngineError(f"{binary} is not executable; chmod +x it")
    try:
        return TraceProcessor(config=api.TraceProcessorConfig(bin_path=str(binary)))
    except (PerfettoException, OSError) as error:
        message = str(error).partition("\nIf this is a slow machine")[0]
        raise EngineError(f"{binary} does not start ({last_line(message)}); {choice}") from error


def _load(tp: TraceProcessor, feed: Iterable[bytes] | str | Path) -> None:
    try:
        tp._parse_trace(pieces(feed))
    except PerfettoException as error:
        reason = last_line(str(error))
        raise EngineError(f"the trace processor rejected the trace: {reason}") from error
    except (HTTPException, ConnectionError) as error:
        raise EngineError(
            f"the trace processor stopped while loading ({error}); is there enough memory?"
        ) from error
