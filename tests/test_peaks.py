"""What GPUs can reach: the list of data sheets, the user's own rows, and peaks.json."""

import json
from pathlib import Path
from typing import Any

import databases
import duckdb
import pytest
from derived import database, rows
from recorded_runs import run_directory

import traceql
from traceql.analysis.peaks.rows import SHIPPED, PeakRow, peak_rows
from traceql.database.loading.inputs import write_peaks
from traceql.errors import PeaksInvalid
from traceql.sql.execute import drop_derived
from traceql.util.files import read_text

LISTED = peak_rows(SHIPPED, read_text(SHIPPED))
ONE_H200 = Path(__file__).parent / "data" / "peaks-h200.json"
TWO_H200 = databases.EXAMPLES / "qwen3-8b-tp2-batch16" / "peaks.json"

# Units (SMs, CUs or cores), GHz for products, multiply-adds of bf16 of a unit in a clock, width of
# the memory's bus in bits, and Gbit/s of each; from architecture white papers and specifications.
HARDWARE = {
    "NVIDIA H200": (132, 1.83, 2048, 6144, 6.25),
    "NVIDIA H100 80GB HBM3": (132, 1.83, 2048, 5120, 5.2),
    "NVIDIA H100 PCIe": (114, 1.62, 2048, 5120, 3.2),
    "NVIDIA A100-SXM4-80GB": (108, 1.41, 1024, 5120, 3.186),
    "NVIDIA A100-SXM4-40GB": (108, 1.41, 1024, 5120, 2.43),
    "NVIDIA A30": (56, 1.44, 1024, 3072, 2.43),
    "NVIDIA A40": (84, 1.74, 512, 384, 14.5),
    "NVIDIA A10": (72, 1.695, 512, 384, 12.5),
    "NVIDIA L40S": (142, 2.52, 512, 384, 18),
    "NVIDIA L40": (142, 2.49, 256, 384, 18),
    "NVIDIA L4": (58, 2.04, 512, 192, 12.5),
    "NVIDIA RTX 6000 Ada Generation": (142, 2.505, 512, 384, 20),
    # With fp32 accumulation, half of the rate with fp16.
    "NVIDIA GeForce RTX 4090": (128, 2.52, 256, 384, 21),
    "NVIDIA GeForce RTX 5090": (170, 2.407, 256, 512, 28),
    "AMD Instinct MI300X": (304, 2.1, 1024, 8192, 5.2),
    "AMD Instinct MI325X": (304, 2.1, 1024, 8192, 6),
    "AMD Instinct MI350X": (256, 2.2, 2048, 8192, 8),
    "AMD Instinct MI355X": (256, 2.4, 2048, 8192, 8),
    "Ascend910B3": (20, 1.8, 4096, 8192, 1.6),
}
# The clock of B200 for products is not published: its peak is below that at the highest clock.
HIGHEST_CLOCK = {
    "NVIDIA B200": (148, 1.965, 4096),
    "NVIDIA H200 NVL": (132, 1.785, 2048),
    "NVIDIA H100 NVL": (132, 1.785, 2048),
}
# How many times as fast as bf16 other types are. Consumer cards have full rate for integers.
FASTER = {"bf16": 1, "fp8": 2, "int8": 2, "fp4": 4}
FASTER_BY_DEVICE = {
    "NVIDIA GeForce RTX 4090": FASTER | {"int8": 4},
    "NVIDIA GeForce RTX 5090": FASTER | {"int8": 4, "fp4": 8},
    "NVIDIA B300": FASTER | {"fp4": 6},
    "NVIDIA GB300": FASTER | {"fp4": 6},
}


def of(example: str, dtype: str = "bf16") -> PeakRow:
    (found,) = [row for row in LISTED if (row.example, row.dtype) == (example, dtype)]
    return found


@pytest.mark.parametrize("example", HARDWARE)
def test_peaks_are_what_units_and_clocks_give(example: str) -> None:
    units, ghz, multiply_adds, bits, gbit = HARDWARE[example]
    row = of(example)
    assert row.tflops == pytest.approx(units * ghz * multiply_adds * 2 / 1000, rel=0.013)
    assert row.hbm_gbps == pytest.approx(bits * gbit / 8, rel=0.03)


@pytest.mark.parametrize("example", HIGHEST_CLOCK)
def test_a_peak_without_a_published_clock_needs_less_than_the_highest(example: str) -> None:
    units, ghz, multiply_adds = HIGHEST_CLOCK[example]
    most = units * ghz * multiply_adds * 2 / 1000
    assert 0.85 * most < (of(example).tflops or 0) < most


def test_other_types_are_faster_by_whole_factors() -> None:
    for row in LISTED:
        factor = FASTER_BY_DEVICE.get(row.example or "", FASTER)[row.dtype]
        bf16 = of(row.example or "").tflops or 0
        assert row.tflops == pytest.approx(factor * bf16, rel=0.013), row


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_each_example_is_its_own_device_and_no_other(dtype: str) -> None:
    con = duckdb.connect()
    of_type = [row for row in LISTED if row.dtype == dtype]
    for row in of_type:
        matching = [
            other.example
            for other in of_type
            if con.execute("SELECT regexp_matches(?, ?)", [row.example, other.device]).fetchone()
            == (True,)
        ]
        assert matching == [row.example]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NVIDIA H200 MIG 1g.18gb", "NVIDIA H20-3e", "CPU"])
def test_a_part_of_a_gpu_has_no_peaks(name: str) -> None:
    assert rows(named(name), "FROM peak") == []


def named(*devices: str) -> Any:
    """Tables of ranks on these devices."""
    con = database()
    con.execute("DELETE FROM trace")
    for rank, name in enumerate(devices):
        con.execute("INSERT INTO trace (rank, device_name) VALUES (?, ?)", [rank, name])
    return con


def measured_on(device: str, **more: Any) -> dict[str, Any]:
    """A peaks.json, as `traceql experiment peaks` writes it."""
    return {
        "schema_version": 1, "measured": "2026-11-22T20:00:00+00:00", "device_name": device,
        "memory_bytes": 150_754_820_096, "l2_bytes": 62_914_560, "multiprocessors": 132,
        "kernel": {"ns": 1184.5, "mad_ns": 16.0, "period_ns": 1700.0, "sm_clock_mhz": 1980,
                   "throttle_reasons": 0},
        "memory": [
            {"op": "copy", "bytes": 2**33, "ns": 2_000_000.0, "mad_ns": 10.0, "launches": 90},
            {"op": "read", "bytes": 2**32, "ns": 1_100_000, "mad_ns": 10.0, "launches": 90},
        ],
        "products": [
            {"dtype": "bf16", "m": 8192, "k": 8192, "n": 8192, "role": None, "load": "burst",
             "ns": 1_350_000.0, "mad_ns": 5000.0, "fastest_ns": 1_340_000.0,
             "sm_clock_mhz": 1980, "throttle_reasons": 4},
            {"dtype": "bf16", "m": 8192, "k": 8192, "n": 8192, "role": None, "load": "sustained",
             "ns": 1_400_000.0, "mad_ns": 5000.0, "sm_clock_mhz": 1500, "throttle_reasons": 4},
            {"dtype": "fp8", "m": 1, "k": 4096, "n": 512, "role": "o_proj", "ns": 2000.0},
        ],
        "collectives": [
            {"op": "all_reduce", "ranks": 4, "bytes": 1000, "ns": 12_000.0, "algorithm": "nccl",
             "kernel_ns": 9_000.0},
            {"op": "all_reduce", "ranks": 4, "bytes": 10**9, "ns": 4e6, "algorithm": "nccl"},
            {"op": "all_gather", "ranks": 4, "bytes": 10**9, "ns": 2e6, "algorithm": "nccl"},
            {"op": "peer_copy", "ranks": 2, "bytes": 10**9, "ns": 2.6e6, "algorithm": "copy"},
        ],
        "skipped": [], "seconds": 83.0, **more,
    }  # fmt: skip


PRODUCT = {"dtype": "bf16", "m": 64, "k": 64, "n": 64, "ns": 2000}


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document))
    return path


_PEAK = "SELECT dtype, tflops, hbm_gbps, link_gbps, pair_gbps, l2_bytes, kernel_ns FROM peak"


def test_a_device_has_the_peaks_of_its_data_sheet_for_each_type() -> None:
    con = named("NVIDIA H200", "NVIDIA H200", "Some GPU")
    assert rows(con, _PEAK) == [
        ("bf16", 989.4, 4800, 450, None, 60 * 2**20, 1200),
        ("fp8", 1978.9, 4800, 450, None, 60 * 2**20, 1200),
        ("int8", 1978.9, 4800, 450, None, 60 * 2**20, 1200),
    ]
    assert rows(con, "SELECT DISTINCT device_name, kind FROM peak") == [
        ("NVIDIA H200", "data sheet")
    ]


def test_rows_of_the_user_replace_values_of_the_list(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(
        "device,dtype,tflops,hbm_gbps,link_gbps,l2_mib,memory_gb,kernel_ns,source\n"
        "MI300X,bf16,708,,300,,,1500,measured by us\n"
        "Some,fp8,10,,,,,,\n"
    )
    con = named("AMD Instinct MI300X", "Some GPU")
    write_peaks(con.con, [own])
    found = {(row[0], row[1]): row[2:] for row in rows(con, f"{_PEAK} WHERE dtype <> 'int8'")}
    assert found == {
        ("bf16", 708): (5300, 300, None, 256 * 2**20, 1500),
        ("fp8", 2614.9): (5300, 448, 64, 256 * 2**20, None),
        ("fp8", 10): (None, None, None, None, None),
    }
    sources: dict[float, str] = dict(
        rows(con, "SELECT tflops, source FROM peak WHERE dtype <> 'int8'")
    )
    assert sources[708].startswith("own.csv: measured by us; what it leaves empty: AMD Instinct")
    assert sources[10] == "own.csv"


def test_measured_ceilings_are_rows_of_their_own(tmp_path: Path) -> None:
    con = named("NVIDIA H200")
    file = written(tmp_path / "peaks.json", measured_on("NVIDIA H200"))
    write_peaks(con.con, [file, written(tmp_path / "x.json", measured_on("NVIDIA H100 NVL"))])
    bf16, fp8 = rows(con, f"{_PEAK} WHERE kind = 'measured'")
    assert bf16 == (
        "bf16", pytest.approx(2e-3 * 8192**3 / 1_340_000), pytest.approx(2**33 / 2_000_000),
        pytest.approx(1e9 / 2.6e6), None, 62_914_560, 1185,
    )  # fmt: skip
    assert fp8 == ("fp8", pytest.approx(2e-3 * 4096 * 512 / 2000), *bf16[2:])
    assert rows(con, "SELECT COUNT(*) FROM peak WHERE kind = 'data sheet'") == [(3,)]
    assert rows(con, "SELECT gap_ns FROM measured_device ORDER BY ALL") == [(515.5,), (515.5,)]
    assert rows(
        con,
        "SELECT op, ranks, bytes, algorithm, round(busbw_gbps, 1), kernel_ns "
        "FROM measured_collective WHERE device_name = 'NVIDIA H200' ORDER BY ALL",
    ) == [
        ("all_gather", 4, 10**9, "nccl", 375.0, None),
        ("all_reduce", 4, 1000, "nccl", 0.1, 9000),
        ("all_reduce", 4, 10**9, "nccl", 375.0, None),
        ("peer_copy", 2, 10**9, "copy", 384.6, None),
    ]


def test_a_given_file_counts_before_those_of_run_directories_and_of_these_the_latest(
    tmp_path: Path,
) -> None:
    con = named("NVIDIA H200")
    for run, day in (("old", 10), ("new", 12)):
        document = measured_on("NVIDIA H200", measured=f"2026-11-{day}T00:00:00+00:00")
        con.execute(
            "INSERT INTO peak_file VALUES (?, ?, 'NVIDIA H200', ?)",
            [f"/{run}/peaks.json", f"/{run}", json.dumps(document)],
        )
    assert rows(con, "SELECT path FROM measured_device") == [("/new/peaks.json",)]
    older = measured_on("NVIDIA H200", measured="2025-01-01T00:00:00+00:00")
    file = written(tmp_path / "given.json", older)
    drop_derived(con.con)
    write_peaks(con.con, [file])
    assert rows(con, "SELECT path FROM measured_device") == [(str(file),)]


@pytest.mark.parametrize("file", [ONE_H200, TWO_H200], ids=["one", "two"])
def test_ceilings_of_a_real_gpu_are_below_its_data_sheet(file: Path) -> None:
    con = named("NVIDIA H200")
    write_peaks(con.con, [file])
    below = """
        SELECT dtype, measured.tflops / stated.tflops, measured.hbm_gbps / stated.hbm_gbps,
            measured.link_gbps / stated.link_gbps, measured.kernel_ns
        FROM peak AS measured
        INNER JOIN peak AS stated USING (device_name, dtype)
        WHERE measured.kind = 'measured' AND stated.kind = 'data sheet'
        ORDER BY dtype
    """
    for _, tflops, hbm, link, kernel_ns in rows(con, below):
        assert 0.80 < tflops < 0.87
        assert 0.90 < hbm < 0.95
        assert link is None or 0.86 < link < 0.89
        assert kernel_ns == 960
    count = len(json.loads(file.read_text())["collectives"])
    assert rows(con, "SELECT COUNT(*) FROM measured_collective") == [(count,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("device,tflops\nA,1\n", "the first line must name the columns device and dtype"),
        ("device,dtype,hbm_gbs\nA,bf16,1\n", "unknown column 'hbm_gbs'; the columns are device,"),
        ("device,dtype,tflops\nA,fp16,1\n", "row 1: unknown dtype 'fp16'; use one of bf16,"),
        ("device,dtype,tflops\nA,bf16,-1\n", "row 1: tflops is '-1', not a number above 0"),
        ("device,dtype,tflops\nA,bf16,1\nA,bf16,2\n", "row 2: an earlier row has the same device"),
        ("device,dtype,tflops\n[,bf16,1\n", "row 1: invalid device: Invalid Input Error: missing"),
        ("{}", "it has no schema_version; give a peaks.json of traceql experiment peaks"),
        (json.dumps(measured_on("A", schema_version=3)), "written by a newer version of traceql"),
        (json.dumps(measured_on("A", memory=[{"op": "copy", "bytes": 1, "ns": 0}])),
         "Expected `float` >= 1.0 - at `$.memory[0].ns`"),
        (json.dumps(measured_on("A", products=[PRODUCT | {"fastest_ns": 2000.1}])),
         "`fastest_ns` is above `ns`, the median - at `$.products[0]`"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_one_of_peaks_is_refused(
    content: str, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "given"
    file.write_text(content, encoding="utf-8")
    con = database().con
    with pytest.raises(PeaksInvalid) as refused:
        write_peaks(con, [file])
    assert reason in str(refused.value)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_run_directory_brings_its_own_ceilings(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    written(run / "peaks.json", measured_on("NVIDIA H200"))
    target = tmp_path / "run.duckdb"
    with traceql.open(traceql.load(run, target).database) as trace:
        (row,) = trace.select("SELECT run, path FROM peak_file").rows()
        assert row == {"run": str(run), "path": str(run / "peaks.json")}
        assert len(trace.select("FROM measured_device").rows()) == 1
    own = tmp_path / "own.csv"
    own.write_text("device,dtype,tflops\nSome,bf16,1\n")
    with traceql.open(traceql.load(run, target, peaks=[own]).database) as trace:
        assert len(trace.select("FROM user_peak").rows()) == 1
        assert len(trace.select("FROM measured_device").rows()) == 1
        given = trace.sql("SELECT ok FROM ledger WHERE check_name = 'given peaks'").rows()
    assert {row["ok"] for row in given} == {False}  # they are for no GPU of the run


@pytest.mark.slow
def test_damaged_ceilings_in_a_run_directory_are_in_the_ledger(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    damaged = measured_on("NVIDIA H200", products=[PRODUCT | {"fastest_ns": 20_000}])
    written(run / "peaks.json", damaged)
    with traceql.open(traceql.load(run, tmp_path / "run.duckdb").database) as trace:
        assert trace.select("FROM peak_file").rows() == []
        failed = trace.run("quality.ledger", failed=True).rows()
    (note,) = [row["note"] for row in failed if row["check_name"] == "peaks.json"]
    assert note == "not loaded: `fastest_ns` is above `ns`, the median - at `$.products[0]`"
