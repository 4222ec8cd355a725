"""What an export tells of the job: the rank and the GPU of each process, versions, clocks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from traceql.readers.dialects.nsys.vocabulary import Argument, Metadata
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.nvtx import EVENTS, Nvtx
from traceql.readers.formats.nsys.processes import PID_BITS, RankPart, machine_of, pid_of
from traceql.readers.shown import shown

_MOST_RANKS = 2**31 - 1  # of a communicator: NCCL counts in 32 bits
_UNSHIFTED = {None, "false", "0"}
_OPTION = re.compile(r"true|[-+]?\d{1,20}")
_VERSION = re.compile(r"\d+(\.\d+)*(-\w{1,20})?", re.ASCII)
_OF_NCCL = "NCCL init in NVTX"


def metadata(export: Export, parts: Sequence[RankPart], nvtx: Nvtx) -> list[dict[str, Any]]:
    """What is known of each rank, by the keys of the dialect; NULL is left out."""
    stated = _nccl_ranks(export, parts, nvtx)
    session = _session(export)
    found = []
    for part, rank in zip(parts, stated, strict=True):
        known = session | _process(export, part) | _gpu(export, part) | rank
        found.append(
            {str(key): value for key, value in known.items() if isinstance(value, int | str)}
        )
    return found


def time_changes(export: Export) -> Mapping[str, str]:
    """The options of the export that changed its times: what they do to them is not documented.

    Values that are neither numbers nor words of the tool are not shown.
    """
    options = _named(export, "META_DATA_EXPORT", "EXPORT_META_DATA")
    wanted = ("EXPORT_PARAM_TIME_NORMALIZE", "EXPORT_PARAM_TIME_SHIFT")
    return {
        name: options[name] if _OPTION.fullmatch(options[name]) else "another value"
        for name in wanted
        if options.get(name) not in _UNSHIFTED
    }


def graph_mode(export: Export) -> str | None:
    """What was recorded of CUDA graphs: Node or Graph; None if the export does not tell."""
    if not export.has("META_DATA_CAPTURE", "name", "value"):
        return None
    found: str | None = export.value(
        "SELECT value FROM META_DATA_CAPTURE "
        "WHERE name LIKE '%CUDA_GRAPH_TRACE_OPTIONS:MODE' AND value IN ('Node', 'Graph')"
    )
    return found


def _session(export: Export) -> dict[Metadata, Any]:
    about = _named(export, "META_DATA_EXPORT", "EXPORT_META_DATA")
    started = None
    if export.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        started = export.value("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
    whole = type(started) is int and not time_changes(export)
    return {
        Metadata.VERSION: _version(about, "EXPORT_PRODUCT_VERSION"),
        Metadata.SCHEMA: _version(about, "EXPORT_SCHEMA_VERSION"),
        Metadata.BASE_TIME: started if whole else None,
        Metadata.GRAPH_MODE: graph_mode(export),
    }


def _version(about: Mapping[str, str], name: str) -> str | None:
    stated = about.get(name, "")
    return stated if _VERSION.fullmatch(stated) else None


def _named(export: Export, *tables: str) -> dict[str, str]:
    """The values of the first of these tables that is there, by name."""
    for table in tables:
        if export.has(table, "name", "value"):
            return {str(k): str(v) for k, v in export.rows(f"SELECT name, value FROM {table}")}
    return {}


def _process(export: Export, part: RankPart) -> dict[Metadata, Any]:
    if part.process is None:
        return {}
    name = None
    if export.has("PROCESSES", "globalPid", "name"):
        name = export.value("SELECT name FROM PROCESSES WHERE globalPid = ?", [part.process])
    return {
        Metadata.MACHINE: machine_of(part.process),
        Metadata.PROCESS: pid_of(part.process),
        Metadata.PROCESS_NAME: None if name is None else shown(name),
    }


def _gpu(export: Export, part: RankPart) -> dict[Metadata, Any]:
    """The GPU of a rank. Numbers of devices are local to a process."""
    if part.process is None:
        return {}
    wanted, values = "cuDevice = ?", [part.device]
    if export.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
        wanted = "id = (SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE WHERE cudaId = ? AND pid = ?)"
        values = [part.device, pid_of(part.process)]
    name = uuid = None
    if export.has("TARGET_INFO_GPU", "id", "name", "cuDevice"):
        column = export.column("TARGET_INFO_GPU", "uuid")
        rows = export.rows(f"SELECT name, {column} FROM TARGET_INFO_GPU WHERE {wanted}", values)
        name, uuid = rows[0] if rows else (None, None)
    return {Metadata.DEVICE: part.device, Metadata.DEVICE_NAME: name, Metadata.DEVICE_UUID: uuid}


def _nccl_ranks(export: Export, parts: Sequence[RankPart], nvtx: Nvtx) -> list[dict[Metadata, Any]]:
    """The rank that each process has in its largest communicator, if that tells all apart."""
    nothing: list[dict[Metadata, Any]] = [{} for _ in parts]
    if not export.has(EVENTS, "binaryData", "domainId", "globalTid"):
        return nothing
    largest: dict[int, tuple[int, int]] = {}
    for thread, domain, blob in export.each(
        f"SELECT globalTid, domainId, binaryData FROM {EVENTS} WHERE binaryData IS NOT NULL"
    ):
        told = nvtx.payload(domain, blob) if isinstance(blob, bytes) else {}
        world, rank = told.get(Argument.WORLD_SIZE), told.get(Argument.RANK)
        if not isinstance(world, int) or not isinstance(rank, int) or type(thread) is not int:
            continue
        if 0 <= rank < world <= _MOST_RANKS:
            process = thread >> PID_BITS
            if world > largest.get(process, (0, 0))[0]:
                largest[process] = world, rank
    found = [largest.get(part.process >> PID_BITS) if part.process else None for part in parts]
    known = [one for one in found if one is not None]
    if len(known) < len(parts) or len(set(known)) < len(parts) or len({w for w, _ in known}) > 1:
        return nothing
    return [
        {Metadata.WORLD_SIZE: world, Metadata.RANK: rank, Metadata.RANK_SOURCE: _OF_NCCL}
        for world, rank in known
    ]
