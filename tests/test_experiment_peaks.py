"""`traceql experiment peaks import` and `show`, as a user meets them."""

import csv
import json
from pathlib import Path
from typing import Any

import databases
import pytest
from command_line import called, output, refusal
from other_programs import bandwidth_test, nccl_tests, nvbandwidth, written

from traceql.plan.limits.tables import TABLES

TWO_H200 = databases.EXAMPLES / "qwen3-8b-tp2-batch16" / "peaks.json"
PEAKS = ("experiment", "peaks")
# 10 us, and 1.75 bytes over the links at 400 GB/s for each byte of the buffer.
LINE = [(2**power, 10 + 1.75 * 2**power / 400e3) for power in range(10, 31)]


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """A peaks.json of eight GPUs."""
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
    return target


def shown(file: Path, *arguments: str) -> list[str]:
    return output(*PEAKS, "show", file, *arguments).splitlines()


def json_rows(file: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        output(*PEAKS, "show", file, "--table", table, "--format", "json")
    )
    return found


def test_an_imported_file_says_its_sources_and_shows_the_fit(imported: Path) -> None:
    lines = shown(imported)
    assert lines[0].startswith("NVIDIA H200, imported 20")
    assert lines[1:3] == [
        "from reduce.json: nccl-tests, NCCL 2.28.9, 2026-11-22 20:00:00",
        "from copies.json: nvbandwidth, v0.8",
    ]
    assert "all_reduce among 8 GPUs, nccl, nccl-tests" in lines
    (fit,) = json_rows(imported, "fit")
    assert fit == {
        "op": "all_reduce", "ranks": 8, "algorithm": "nccl", "source": "nccl-tests",
        "timing": "launch", "sizes": 21, "from_bytes": 2**10, "to_bytes": 2**30,
        "alpha_ns": pytest.approx(10_000), "bandwidth_gbps": pytest.approx(400),
        "median_error_pct": pytest.approx(0, abs=1e-4),
        "largest_error_pct": pytest.approx(0, abs=1e-4), "worst_bytes": fit["worst_bytes"],
    }  # fmt: skip


def test_bandwidths_of_collectives_are_those_of_nccl_tests(imported: Path) -> None:
    report = nccl_tests("all_reduce", LINE)["results"]
    found = json_rows(imported, "collectives")
    assert [(row["bytes"], row["algbw_gbps"], row["busbw_gbps"]) for row in found] == [
        (
            one["size"],
            pytest.approx(one["out_of_place"]["alg_bw"], abs=1e-6),
            pytest.approx(one["out_of_place"]["bus_bw"], abs=1e-6),
        )
        for one in report
    ]


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


def test_sizes_and_times_are_in_units_that_all_rows_can_be_read_in() -> None:
    lines = shown(TWO_H200, "--table", "collectives")
    custom = lines.index("all_reduce among 2 GPUs, custom")
    assert lines[custom + 4].split() == ["1", "KiB", "4.0", "3.7", "0.3", "0.3"]
    assert lines[custom + 16].split() == ["4", "MiB", "19.8", "19.2", "212.2", "212.2"]


def test_all_tables_are_one_of_rows_that_name_theirs() -> None:
    found = json.loads(output(*PEAKS, "show", TWO_H200, "--format", "json"))
    counts = {name: sum(row["table"] == name for row in found) for name in TABLES}
    # Of 85 products, 12 shapes were measured in bursts and without a pause.
    assert counts == {
        "matmul": 85 - 12, "memory": 4, "copies": 5, "host": 0, "collectives": 55, "fit": 6,
    }  # fmt: skip
    as_csv = list(csv.DictReader(output(*PEAKS, "show", TWO_H200, "--format", "csv").splitlines()))
    assert [row["table"] for row in as_csv] == [row["table"] for row in found]


def test_what_cannot_be_shown_or_imported_is_one_line(tmp_path: Path) -> None:
    none = tmp_path / "none.json"
    assert refusal(*PEAKS, "show", none).startswith(f"traceql: cannot read the peaks in {none}: No")
    assert refusal(*PEAKS, "import", none, "-o", none).startswith(
        f"traceql: cannot import {none}: No such"
    )
    good = written(tmp_path / "good.json", nccl_tests())
    assert refusal(*PEAKS, "import", good, "-o", tmp_path).endswith(
        "is a folder; name a file with -o"
    )
    told = refusal(*PEAKS, "import", good, status=2)  # or it would replace what was measured
    assert told == "Error: Missing option '-o' / '--output'."
    told = refusal(*PEAKS, "shows", status=2)
    assert told == "Error: there is no command 'shows'; did you mean 'show'?"
    assert refusal("capture", "peaks", status=2) == "Error: No such command 'peaks'."
