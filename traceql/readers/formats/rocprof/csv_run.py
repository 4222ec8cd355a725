"""Reads the CSV files of rocprofv3 that are one recording.

A kernel's file names no process: it is that of the calls, or else the number that the file's name
begins with. Files that `rocpd convert` made of several processes have a column that tells them
apart.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.formats.rocprof.csv_process import CsvProcess
from traceql.readers.formats.rocprof.csv_table import CsvTable
from traceql.readers.formats.rocprof.forms import AGENTS, KINDS, STATISTICS, Form, csv_files
from traceql.readers.formats.rocprof.recording import Agent, Recording

_PID = re.compile(r"(?:.*_)?(?P<pid>\d+)_[a-z_]+\.csv(?:\.gz)?$")
_GPU = "GPU"
_GUID = "guid"
_LOAD = "load the files *_trace.csv of the recording, or its results.db or results.json"
_NO_RECORDS = {
    AGENTS: f"lists the processors of a recording of rocprofv3, not what they did; {_LOAD}",
    STATISTICS: f"has sums by name (statistics of rocprofv3), not the events; {_LOAD}",
}


def read_csv(path: Path) -> Recording:
    """The processes of the recording that a file stands for.

    Raises:
        TraceCorrupt: one of its files is damaged or was changed by another program.
        NotATrace: the file holds no records, and there are none beside it.
    """
    files = csv_files(path)
    if not set(files) & set(KINDS):
        raise NotATrace(_NO_RECORDS[AGENTS if AGENTS in files else STATISTICS])
    tables = {kind: _read(file) for kind, file in files.items()}
    parts = _by_process(tables)
    name = _PID.match(path.name)
    pid = int(name["pid"]) if name and len(parts) == 1 else None
    return Recording(Form.CSV, [_process(part).process(pid) for part in parts])


def _process(tables: Mapping[str, CsvTable]) -> CsvProcess:
    agents = _agents(tables[AGENTS]) if AGENTS in tables else None
    return CsvProcess({kind: tables[kind] for kind in tables if kind != AGENTS}, agents)


def _read(file: Path) -> CsvTable:
    """A file; errors name it."""
    try:
        return CsvTable(file)
    except TraceCorrupt as error:
        raise type(error)(f"{file.name}: {str(error).removeprefix(f'{file.name}: ')}") from None


def _by_process(tables: Mapping[str, CsvTable]) -> list[dict[str, CsvTable]]:
    """The tables of each process."""
    guids: set[str] = set()
    for table in tables.values():
        if (column := table.text(_GUID)) is not None:
            guids |= set(pc.unique(column).to_pylist())
    if len(guids) < 2:
        return [dict(tables)]
    return [
        {kind: table.of(_GUID, guid) for kind, table in tables.items() if table.has(_GUID)}
        for guid in sorted(guids)
    ]


def _agents(table: CsvTable) -> Mapping[str, Agent]:
    """The processors by how the other files may call them: absolute, relative, or by type.

    A number may stand for two processors, one by each way of counting. rocprofv3 counts in its
    relative way unless it is told otherwise.
    """
    columns = {
        name: (table.text(name) or pa.nulls(len(table), pa.large_string())).to_pylist()
        for name in ("node_id", "logical_node_id", "agent_type", "name", "product_name")
    }
    found: dict[str, Agent] = {}
    relative: dict[str, Agent] = {}
    gpus = 0
    for node, logical, kind, name, product in zip(*columns.values(), strict=True):
        is_gpu = kind == _GPU
        agent = Agent(gpus if is_gpu else None, product or name, name)
        if is_gpu:
            found[f"{_GPU} {gpus}"] = agent
            gpus += 1
        found[f"Agent {node}"] = found[str(node)] = agent
        relative[f"Agent {logical}"] = agent
    return found | relative
