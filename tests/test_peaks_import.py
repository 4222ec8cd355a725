"""`traceql experiment peaks import` and `show`: files of nccl-tests and nvbandwidth."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import called, output, refusal
from other_programs import CANARY, bandwidth_test, nccl_tests, nvbandwidth, written

from traceql.database.loading.inputs import Collective, PeaksDocument
from traceql.errors import PeaksInvalid
from traceql.plan.limits.collective_time import peaks_file
from traceql.plan.limits.peaks_import import import_peaks, write_peaks
from traceql.plan.limits.tables import TABLES

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


def error(folder: Path, *documents: object) -> str:
    with pytest.raises(PeaksInvalid) as refused:
        imports(folder, *documents)
    assert "\n" not in str(refused.value)
    return str(refused.value)


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
    # The environment and the host are not kept.
    assert CANARY in (tmp_path / "0.json").read_text()
    assert "canary" not in (tmp_path / "peaks.json").read_text()
    assert "node0" not in (tmp_path / "peaks.json").read_text()


def test_ranks_are_those_of_all_processes_of_the_first_group(tmp_path: Path) -> None:
    by_mpi = nccl_tests(ranks=8, processes=4)
    by_mpi["args"][0] = "/opt/nccl-tests/all_reduce_perf_mpi"
    split = nccl_tests(ranks=4, processes=2)
    other = {**split["config"]["devices"][0], "group": 1}
    split["config"]["devices"] += [other, other]
    found = peaks(tmp_path, by_mpi, split)
    assert [one.ranks for one in found.collectives] == [8, 8, 4, 4]


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("results", 1, "out_of_place", "nwrong"), 12.0,
         "results[1].out_of_place.nwrong is 12: GPUs or links corrupt data"),
        (("results", 1, "out_of_place", "cpu_time"), 3.0, "has cpu_time, not time; run the test"),
        (("results", 1, "out_of_place", "bus_bw"), 50.0,
         "is 0.954, which 8 ranks (processes x nthreads x ngpus) do not have: 1.750;"),
        (("results", 1, "type"), "half", "several types or operations (float sum, half sum)"),
        (("results",), [], "it has no results of a size above 0"),
        (("args", 0), "./build/broadcast_perf", "args[0] is 'broadcast_perf', not one of all_red"),
        (("config", "ngpus"), 1, "it is of one GPU, which communicates with none"),
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
    told = error(tmp_path, report)
    assert told.startswith(f"cannot import {tmp_path / '0.json'}: ")
    assert reason in told


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
    report = nvbandwidth(
        bandwidth_test("host_to_device_memcpy_ce", [55, 54]),
        bandwidth_test("device_to_host_bidirectional_memcpy_sm", [40, 39]),
        bandwidth_test("device_local_copy", [2100, 2000]),
    )
    found = peaks(tmp_path, report, buffer_mib=64)
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


READ = "device_to_device_memcpy_read_ce"


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (nvbandwidth(error="no IMEX"), "no copy in it was measured: no IMEX; run"),
        (nvbandwidth(bandwidth_test(READ, [None, 380])),
         "testcases[0].bandwidth_matrix does not have 2 x 2 numbers"),
        (nvbandwidth({**bandwidth_test(READ), "bandwidth_matrix": [["N/A", "fast"], ["1", "2"]]}),
         "testcases[0].bandwidth_matrix[0][1] is 'fast', not a bandwidth in GB/s"),
    ],
)  # fmt: skip
def test_what_nvbandwidth_did_not_write_is_one_line(
    report: object, reason: str, tmp_path: Path
) -> None:
    told = error(tmp_path, report)
    assert told.startswith(f"cannot import {tmp_path / '0.json'}: ")
    assert reason in told


def test_rows_are_added_to_those_of_a_peaks_json_of_the_same_gpu(tmp_path: Path) -> None:
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
    assert "is a second peaks.json" in error(tmp_path, measured, measured)
    other = nccl_tests()
    other["config"]["devices"][0]["device_info"] = "NVIDIA L4"
    assert "a peaks.json is of GPUs of one name" in error(tmp_path, nccl_tests(), other)
    assert "neither a file of nccl-tests (-J), nor of nvbandwidth (-j)" in error(tmp_path, [])


# The commands.

TWO_H200 = databases.EXAMPLES / "qwen3-8b-tp2-batch16" / "peaks.json"
PEAKS = ("experiment", "peaks")
# 10 us, and 1.75 bytes over the links at 400 GB/s for each byte of the buffer.
LINE = [(2**power, 10 + 1.75 * 2**power / 400e3) for power in range(10, 31)]


def json_rows(file: Path, table: str) -> Any:
    return json.loads(output(*PEAKS, "show", file, "--table", table, "--format", "json"))


def test_an_imported_file_shows_its_sources_fit_and_bandwidths(tmp_path: Path) -> None:
    gpus = range(8)
    matrix = [[None if row == column else 380 + row for column in gpus] for row in gpus]
    copies = nvbandwidth(
        bandwidth_test("device_to_device_memcpy_write_ce", *matrix),
        bandwidth_test("host_to_device_memcpy_ce", [55.0] * 8),
        bandwidth_test("device_to_device_latency_sm", *matrix),
        gpus=8,
    )
    files = [
        written(tmp_path / "reduce.json", nccl_tests("all_reduce", LINE)),
        written(tmp_path / "copies.json", copies),
    ]
    target = tmp_path / "peaks.json"
    done = called(*PEAKS, "import", *files, "-o", target)
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        f"wrote {target}, NVIDIA H200: 77 collectives and copies between GPUs, 8 copies of the "
        "host",
        f"next: traceql experiment peaks show {target}",
    ]
    assert done.stderr.decode() == f"skipped: {files[1]}: device_to_device_latency_sm\n"
    lines = output(*PEAKS, "show", target).splitlines()
    assert lines[0].startswith("NVIDIA H200, imported 20")
    assert lines[1:3] == [
        "from reduce.json: nccl-tests, NCCL 2.28.9, 2026-11-22 20:00:00",
        "from copies.json: nvbandwidth, v0.8",
    ]
    assert "all_reduce among 8 GPUs, nccl, nccl-tests" in lines
    (fit,) = json_rows(target, "fit")
    assert fit == {
        "op": "all_reduce", "ranks": 8, "algorithm": "nccl", "source": "nccl-tests",
        "timing": "launch", "sizes": 21, "from_bytes": 2**10, "to_bytes": 2**30,
        "alpha_ns": pytest.approx(10_000), "bandwidth_gbps": pytest.approx(400),
        "median_error_pct": pytest.approx(0, abs=1e-4),
        "largest_error_pct": pytest.approx(0, abs=1e-4), "worst_bytes": fit["worst_bytes"],
    }  # fmt: skip
    report = nccl_tests("all_reduce", LINE)["results"]
    for row, one in zip(json_rows(target, "collectives"), report, strict=True):
        of_tests = (one["size"], one["out_of_place"]["alg_bw"], one["out_of_place"]["bus_bw"])
        bandwidths = (row["bytes"], row["algbw_gbps"], row["busbw_gbps"])
        assert bandwidths == pytest.approx(of_tests, abs=1e-6)


def test_a_measured_file_shows_its_products_with_their_share_of_the_data_sheet() -> None:
    square = [row for row in json_rows(TWO_H200, "matmul") if row["m"] == row["k"] == 8192]
    bf16, fp8 = square
    # 2 x 8192^3 operations in the measured time, of 989.4 TFLOP/s.
    assert bf16["burst_tflops"] == pytest.approx(2e-3 * 8192**3 / bf16["burst_ns"])
    assert bf16["data_sheet_pct"] == pytest.approx(100 * bf16["burst_tflops"] / 989.4)
    assert (fp8["dtype"], bf16["sustained_clock_mhz"]) == ("fp8", 1530)
    decode = [row for row in json_rows(TWO_H200, "matmul") if row["role"] == "lm_head"]
    assert [row["m"] for row in decode] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert decode[0]["weights_gbps"] == pytest.approx(4096 * 75_968 * 2 / decode[0]["sustained_ns"])


def test_all_tables_are_one_of_rows_that_name_theirs() -> None:
    found = json.loads(output(*PEAKS, "show", TWO_H200, "--format", "json"))
    counts = {name: sum(row["table"] == name for row in found) for name in TABLES}
    # Of 85 products, 12 shapes were measured in bursts and without a pause.
    assert counts == {
        "matmul": 85 - 12, "memory": 4, "copies": 5, "host": 0, "collectives": 55, "fit": 6,
    }  # fmt: skip


def test_what_cannot_be_shown_or_imported_is_one_line(tmp_path: Path) -> None:
    none, good = tmp_path / "none.json", written(tmp_path / "good.json", nccl_tests())
    assert refusal(*PEAKS, "show", none).startswith(f"traceql: cannot read the peaks in {none}: No")
    assert f"cannot import {none}: No such" in refusal(*PEAKS, "import", none, "-o", none)
    assert refusal(*PEAKS, "import", good, "-o", tmp_path).endswith("name a file with -o")
    told = refusal(*PEAKS, "import", good, status=2)  # or it would replace what was measured
    assert told == "Error: Missing option '-o' / '--output'."
