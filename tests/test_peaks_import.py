"""peaks.json of files of nccl-tests and nvbandwidth: what is read, and what is refused."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from other_programs import CANARY, bandwidth_test, nccl_tests, nvbandwidth, written

from traceql.database.loading.inputs import Collective, PeaksDocument
from traceql.errors import PeaksInvalid
from traceql.plan.limits.collective_time import peaks_file
from traceql.plan.limits.peaks_import import import_peaks, write_peaks

NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
MIB = 2**20


def imports(
    folder: Path, *documents: object, buffer_mib: int = 512
) -> tuple[dict[str, Any], list[str]]:
    files = [written(folder / f"{n}.json", one) for n, one in enumerate(documents)]
    return import_peaks(files, buffer_mib=buffer_mib, now=NOW)


def peaks(folder: Path, *documents: object, buffer_mib: int = 512) -> PeaksDocument:
    """What the peaks.json of these files holds when it is read again."""
    target = folder / "peaks.json"
    write_peaks(target, imports(folder, *documents, buffer_mib=buffer_mib)[0])
    return peaks_file(target)


def refusal(folder: Path, *documents: object) -> str:
    with pytest.raises(PeaksInvalid) as refused:
        imports(folder, *documents)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# --- nccl-tests ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "op"),
    [
        ("all_reduce", "all_reduce"), ("all_gather", "all_gather"), ("alltoall", "all_to_all"),
        ("reduce_scatter", "reduce_scatter"), ("sendrecv", "send_recv"),
    ],
)  # fmt: skip
def test_each_test_of_nccl_tests_is_a_collective_by_size(
    test: str, op: Any, tmp_path: Path
) -> None:
    found = peaks(tmp_path, nccl_tests(test, [(1024, 12.5), (MIB, 20.0)]))
    assert found.collectives == [
        Collective(op=op, ranks=8, bytes=1024, ns=12_500, algorithm="nccl", source="nccl-tests"),
        Collective(op=op, ranks=8, bytes=MIB, ns=20_000, algorithm="nccl", source="nccl-tests"),
    ]
    assert (found.device_name, found.measured) == ("NVIDIA H200", "2026-11-23T09:00:00+00:00")
    (source,) = found.sources
    assert (source.program, source.file, source.version, source.started) == (
        "nccl-tests", "0.json", "NCCL 2.28.9", "2026-11-22 20:00:00"
    )  # fmt: skip


def test_ranks_are_those_of_all_processes_of_the_first_group(tmp_path: Path) -> None:
    by_mpi = nccl_tests(ranks=8, processes=4)
    by_mpi["args"][0] = "/opt/nccl-tests/all_reduce_perf_mpi"
    split = nccl_tests(ranks=4, processes=2)
    other = {**split["config"]["devices"][0], "group": 1}
    split["config"]["devices"] += [other, other]
    found = peaks(tmp_path, by_mpi, split)
    assert [one.ranks for one in found.collectives] == [8, 8, 4, 4]


def test_the_environment_of_nccl_tests_is_not_kept(tmp_path: Path) -> None:
    document = imports(tmp_path, nccl_tests())[0]
    assert CANARY in (tmp_path / "0.json").read_text()
    assert "canary" not in json.dumps(document)
    assert "node0" not in json.dumps(document)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("results", 1, "out_of_place", "nwrong"), 12.0,
         "results[1].out_of_place.nwrong is 12: GPUs or links corrupt data"),
        (("results", 1, "out_of_place", "time"), "20 us",
         "results[1].out_of_place.time is '20 us', not a number of microseconds"),
        (("results", 1, "out_of_place", "time"), 0, "at `$.results[1].out_of_place.time`"),
        (("results", 1, "out_of_place", "alg_bw"), [], "at `$.results[1].out_of_place.alg_bw`"),
        (("results", 1, "out_of_place", "cpu_time"), 3.0, "has cpu_time, not time; run the test"),
        (("results", 1, "out_of_place", "bus_bw"), 50.0,
         "is 0.954, which 8 ranks (processes x nthreads x ngpus) do not have: 1.750;"),
        (("results", 1, "size"), "1M", "Expected `int`, got `str` - at `$.results[1].size`"),
        (("results", 1, "type"), "half", "several types or operations (float sum, half sum)"),
        (("results",), [], "it has no results of a size above 0"),
        (("results",), None, "Expected `array`, got `null` - at `$.results`"),
        (("args", 0), "./build/broadcast_perf", "args[0] is 'broadcast_perf', not one of all_red"),
        (("args",), [], "at `$.args`"),
        (("config", "ngpus"), 1, "it is of one GPU, which communicates with none"),
        (("config", "devices"), [], "at `$.config.devices`"),
        (("config", "devices", 0, "device_info"), 3, "at `$.config.devices[0].device_info`"),
    ],
)  # fmt: skip
def test_what_nccl_tests_did_not_write_is_one_line(
    place: tuple[Any, ...], value: object, reason: str, tmp_path: Path
) -> None:
    report = copy.deepcopy(nccl_tests())
    at: Any = report
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value
    told = refusal(tmp_path, report)
    assert told.startswith(f"cannot import {tmp_path / '0.json'}: ")
    assert reason in told


# --- nvbandwidth -----------------------------------------------------------------------------


def pairs(found: PeaksDocument) -> dict[tuple[str, int | None, int | None], Any]:
    """GB/s by operation and GPUs."""
    return {
        (one.op, one.from_gpu, one.to_gpu): pytest.approx(one.bytes / one.ns)
        for one in found.collectives
    }


def test_a_gpu_of_a_row_reads_from_those_of_the_columns_and_writes_to_them(tmp_path: Path) -> None:
    """As the calls of doMemcpy(source, target) in testcases_ce.cpp; its arrows point otherwise."""
    read = bandwidth_test("device_to_device_memcpy_read_ce", [None, 380], [390, None])
    assert pairs(peaks(tmp_path, nvbandwidth(read))) == {
        ("peer_copy", 1, 0): 380, ("peer_copy", 0, 1): 390,
    }  # fmt: skip
    write = bandwidth_test("device_to_device_memcpy_write_sm", [None, 380], [390, None])
    found = peaks(tmp_path, nvbandwidth(write))
    assert pairs(found) == {("peer_copy", 0, 1): 380, ("peer_copy", 1, 0): 390}
    assert {(one.algorithm, one.source, one.bytes) for one in found.collectives} == {
        ("copy_kernel", "nvbandwidth", 512 * MIB)
    }
    (source,) = found.sources
    assert (source.program, source.version, source.started) == ("nvbandwidth", "v0.8", None)


def test_of_both_directions_at_once_each_counts_half_of_the_sum(tmp_path: Path) -> None:
    """Its matrix has three blocks: the one direction, the other, and their sum."""
    test = bandwidth_test(
        "device_to_device_bidirectional_memcpy_write_ce",
        [None, 300], [310, None], [None, 340], [350, None], [None, 640], [660, None],
    )  # fmt: skip
    assert pairs(peaks(tmp_path, nvbandwidth(test))) == {
        ("peer_copy_both", 0, 1): 320, ("peer_copy_both", 1, 0): 330,
    }  # fmt: skip


def test_copies_of_the_host_and_within_a_gpu(tmp_path: Path) -> None:
    found = peaks(
        tmp_path,
        nvbandwidth(
            bandwidth_test("host_to_device_memcpy_ce", [55, 54]),
            bandwidth_test("device_to_host_bidirectional_memcpy_sm", [40, 39]),
            bandwidth_test("device_local_copy", [2100, 2000]),
        ),
        buffer_mib=64,
    )
    assert [
        (one.op, one.gpu, one.algorithm, one.bytes, round(one.bytes / one.ns, 6))
        for one in found.host_copies
    ] == [
        ("to_gpu", 0, "copy", 64 * MIB, 55), ("to_gpu", 1, "copy", 64 * MIB, 54),
        ("from_gpu_both", 0, "copy_kernel", 64 * MIB, 40),
        ("from_gpu_both", 1, "copy_kernel", 64 * MIB, 39),
    ]  # fmt: skip
    # A copy within a GPU reads and writes each byte.
    assert [(one.op, one.bytes, one.gpu, one.source) for one in found.memory] == [
        ("copy", 128 * MIB, 0, "nvbandwidth"), ("copy", 128 * MIB, 1, "nvbandwidth"),
    ]  # fmt: skip
    assert [one.bytes / one.ns for one in found.memory] == pytest.approx([4200, 4000])


def test_tests_without_a_place_are_named(tmp_path: Path) -> None:
    waived = {"name": "device_to_device_memcpy_read_sm", "status": "Waived"}
    latency = bandwidth_test("device_to_device_latency_sm", [None, 700], [700, None])
    _, left_out = imports(
        tmp_path, nvbandwidth(waived, latency, bandwidth_test("host_to_device_memcpy_ce", [55, 54]))
    )
    assert left_out == [
        f"{tmp_path / '0.json'}: device_to_device_memcpy_read_sm (Waived), "
        "device_to_device_latency_sm"
    ]


READ = "device_to_device_memcpy_read_ce"


def listed(*devices: str) -> dict[str, Any]:
    """A report whose list of devices is this."""
    report = nvbandwidth()
    report["nvbandwidth"]["GPU Device list"] = devices
    return report


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (nvbandwidth(), "no copy in it was measured; run device_to_device_memcpy_read_ce"),
        (nvbandwidth(error="no IMEX"), "no copy in it was measured: no IMEX; run"),
        (nvbandwidth(bandwidth_test(READ, [None, 380])),
         "testcases[0].bandwidth_matrix does not have 2 x 2 numbers"),
        (nvbandwidth(bandwidth_test("device_to_device_bidirectional_memcpy_read_ce",
                                    [None, 380], [380, None])),
         "testcases[0].bandwidth_matrix has 2 rows, not 3 x 2"),
        (nvbandwidth({**bandwidth_test(READ), "bandwidth_matrix": [["N/A", "fast"], ["1", "2"]]}),
         "testcases[0].bandwidth_matrix[0][1] is 'fast', not a bandwidth in GB/s"),
        (nvbandwidth({**bandwidth_test(READ), "bandwidth_matrix": [["N/A", "-1"], ["1", "2"]]}),
         "is '-1', not a bandwidth"),
        (nvbandwidth({**bandwidth_test(READ), "bandwidth_matrix": [[1.5]]}),
         "Expected `str`, got `float` - at `$.nvbandwidth.testcases[0].bandwidth_matrix[0][0]`"),
        (listed("NVIDIA H200"), "'GPU Device list'[0] is not"),
        (listed("0: NVIDIA H200 (0000:18:00): (a)", "1: NVIDIA L4 (0000:19:00): (a)"),
         "it is of different GPUs (NVIDIA H200, NVIDIA L4)"),
    ],
)  # fmt: skip
def test_what_nvbandwidth_did_not_write_is_one_line(
    report: object, reason: str, tmp_path: Path
) -> None:
    told = refusal(tmp_path, report)
    assert told.startswith(f"cannot import {tmp_path / '0.json'}: ")
    assert reason in told


# --- several files ---------------------------------------------------------------------------


def test_rows_are_added_to_those_of_a_peaks_json(tmp_path: Path) -> None:
    measured = {
        "schema_version": 1, "measured": "2026-11-20T00:00:00+00:00", "device_name": "NVIDIA H200",
        "memory": [{"op": "read", "bytes": 2**32, "ns": 1e6}], "products": [], "skipped": ["x"],
        "collectives": [
            {"op": "peer_copy", "ranks": 2, "bytes": 2**30, "ns": 2.7e6, "algorithm": "copy"}
        ],
        "topology": "NV18",
    }  # fmt: skip
    document = imports(tmp_path, nccl_tests(), measured)[0]
    assert document["topology"] == "NV18"
    assert document["schema_version"] == 2
    found = peaks(tmp_path, nccl_tests(), measured)
    assert [one.op for one in found.collectives] == ["peer_copy", "all_reduce", "all_reduce"]
    assert (found.measured, found.skipped, len(found.memory)) == (
        "2026-11-20T00:00:00+00:00", ["x"], 1
    )  # fmt: skip
    assert "is a second peaks.json" in refusal(tmp_path, measured, measured)


def test_files_of_different_gpus_are_refused(tmp_path: Path) -> None:
    other = nccl_tests()
    other["config"]["devices"][0]["device_info"] = "NVIDIA L4"
    told = refusal(tmp_path, nvbandwidth(bandwidth_test("host_to_device_memcpy_ce", [5, 5])), other)
    assert "0.json is of NVIDIA H200" in told
    assert "1.json of NVIDIA L4; a peaks.json is of GPUs of one name" in told


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "neither a file of nccl-tests (-J), nor of nvbandwidth (-j), nor a peaks.json"),
        ({"schema_version": 3}, "Object missing required field `device_name`"),
    ],
)
def test_other_files_are_refused(document: object, reason: str, tmp_path: Path) -> None:
    assert reason in refusal(tmp_path, document)
