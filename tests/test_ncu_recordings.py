"""Recordings of Nsight Compute, beside traces of the same programs."""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pytest

import traceql
from traceql.present.ui.trace_file import trace_file
from traceql.readers.ncu.read import read_profile
from traceql.readers.ncu.values import Profile

DATA = Path(__file__).parent / "data"
NCU = DATA / "ncu"
TRACES = DATA / "nsys"
SAMPLE = databases.ROOT.parent / "shared" / "profilers" / "ncu" / "copy-blocked-details.csv"
EAGER, LAYERS = "qwen3-8b-2layers-eager", "qwen3-8b-2layers-nvtx-layers"
READ = "dram__bytes_read.sum"
TENSOR = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
HIDDEN, MLP, VOCABULARY, HEADS, KV_HEADS, HEAD = 4096, 12288, 151936, 32, 8, 128
# Rows and columns of the weights of each product.
WEIGHTS = {
    "qkv_proj": ((HEADS + 2 * KV_HEADS) * HEAD, HIDDEN),
    "o_proj": (HIDDEN, HEADS * HEAD),
    "gate_up_proj": (2 * MLP, HIDDEN),
    "down_proj": (HIDDEN, MLP),
    "lm_head": (VOCABULARY, HIDDEN),
}


def cells(name: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The units and the launches of a raw page, by the module csv alone."""
    text = gzip.decompress((NCU / f"{name}.csv.gz").read_bytes()).decode()
    units, *rows = csv.DictReader(io.StringIO(text[text.index('"ID",') :]))
    return units, [row for row in rows if row["ID"].isdigit()]


def profile(name: str) -> Profile:
    return read_profile(NCU / f"{name}.csv.gz")


def metrics(found: Profile) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.metrics.to_pylist()]


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traceql.Run]:
    database = tmp_path_factory.mktemp("ncu") / "eager.duckdb"
    traceql.load([TRACES / f"{EAGER}.pt.trace.json.gz", NCU / f"{EAGER}-raw-base.csv.gz"], database)
    with traceql.open(database) as trace:
        yield trace


@pytest.mark.slow
def test_every_value_of_a_raw_page_is_loaded(eager: traceql.Run) -> None:
    units, rows = cells(f"{EAGER}-raw-base")
    names = [name for name in units if "__" in name]
    expected = sum(1 for row in rows for name in names if row[name])
    totals = {n: sum(float(row[n].replace(",", "")) for row in rows) for n in (READ, TENSOR)}
    (count,) = eager.sql("SELECT COUNT(*) AS n, COUNT(DISTINCT launch) AS m FROM kernel_metric")
    assert (count["n"], count["m"]) == (expected, len(rows))
    found = eager.sql("SELECT metric, SUM(value) AS total FROM kernel_metric GROUP BY metric")
    sums = {row["metric"]: row["total"] for row in found}
    assert {name: sums[name] for name in totals} == totals


@pytest.mark.slow
def test_each_kernel_has_the_launch_at_its_place(eager: traceql.Run) -> None:
    _, rows = cells(f"{EAGER}-raw-base")
    file = TRACES / f"{EAGER}.pt.trace.json.gz"
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    assert len(kernels) == len(rows) == 155
    found = eager.select("""
        SELECT kernel.name, kernel.dur, profiled_launch.number, kernel_match.how
        FROM kernel_match
        INNER JOIN kernel ON kernel_match.kernel_id = kernel.id
        INNER JOIN profiled_launch ON kernel_match.launch = profiled_launch.id
        ORDER BY kernel.ts
    """).rows()
    for number, (row, launch, kernel) in enumerate(zip(found, rows, kernels, strict=True)):
        assert (row["number"], row["how"], row["name"]) == (number, "order", kernel["name"])
        assert launch["Grid Size"] == str(tuple(kernel["args"]["grid"]))
    total = eager.sql("SELECT value, total FROM ledger WHERE check_name = 'kernels with counters'")
    assert [tuple(row.values()) for row in total] == [(155, 155)]


@pytest.mark.parametrize("role", WEIGHTS)
def test_a_product_reads_its_weights_and_multiplies_them(eager: traceql.Run, role: str) -> None:
    """Of 4 requests, the tensor cores work on 8 rows; the first step has 700 tokens."""
    out, into = WEIGHTS[role]
    for row in eager.query("ncu.roofline", role=role, limit=0):
        if not row["tensor_flops"]:
            continue  # adds up the parts of a product
        is_decode = row["phase"] == "decode"
        rows = 4 if is_decode or role == "lm_head" else 700
        moved = 2 * (out * into + rows * (out + into))
        tiles = 8 if rows == 4 else 704
        assert row["expected_bytes"] == 2 * out * into
        assert row["tensor_flops"] == pytest.approx(2 * out * into * tiles, rel=0.005)
        if rows == 4:
            assert moved <= row["dram_bytes"] < 1.05 * moved
            assert (row["bound"], row["compute_pct"] < 5) == ("memory", True)
        else:
            assert 0.9 * moved < row["dram_bytes"] < 2 * moved
            assert row["bound"] == "compute"
        assert row["achieved_gbps"] == pytest.approx(row["dram_bytes"] / row["mean_ns"])
        assert row["memory_pct"] == pytest.approx(row["achieved_gbps"] / 48)


@pytest.mark.slow
def test_locales_and_pages_have_the_same_numbers() -> None:
    """Scaled values are rounded: half of the last digit is the most that they may differ."""
    base = {(row[0], row[2]): row for row in metrics(profile(f"{EAGER}-raw-base"))}
    scaled = metrics(profile(f"{EAGER}-raw"))
    assert metrics(profile(f"{EAGER}-raw-german")) == scaled
    for page in (scaled, metrics(profile(f"{EAGER}-details"))):
        assert len(page) > 2000
        for launch, _, metric, unit, value, text, _, step in page:
            _, _, _, exact_unit, exact, exact_text, _, exact_step = base[launch, metric]
            assert (unit, text) == (exact_unit, exact_text)
            if value is not None:
                assert abs(value - exact) <= 0.5001 * (step + exact_step), (metric, value, exact)


@pytest.mark.slow
def test_order_holds_for_a_profile_with_ranges_and_for_nsight_systems(tmp_path: Path) -> None:
    """The same program under three profilers; Nsight Systems writes names in its own way, too."""
    for suffix in ("pt.trace.json.gz", "sqlite.gz"):
        database = tmp_path / f"{suffix}.duckdb"
        traceql.load([TRACES / f"{LAYERS}.{suffix}", NCU / f"{LAYERS}-raw-base.csv.gz"], database)
        with traceql.open(database) as trace:
            found = trace.select(
                "SELECT how, COUNT(DISTINCT kernel_id) AS n FROM kernel_match GROUP BY how"
            )
            assert [tuple(row.values()) for row in found] == [("order", 140)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [EAGER, LAYERS])
@pytest.mark.parametrize("step", ["execute_context_4(700)", "_generation_4(4)"])
def test_a_profile_of_one_step_is_tied_to_what_was_launched_in_its_range(
    name: str, step: str, tmp_path: Path
) -> None:
    """Other kernels of the step, of sampling, are launched after the range.

    Of the whole program, the n-th launch is the n-th kernel: this profile is a part of that one.
    """
    text = gzip.decompress((NCU / f"{name}-raw-base.csv.gz").read_bytes()).decode()
    header, units, *launches = text[text.index('"ID",') :].splitlines()
    inside = [line for line in launches if step in line]
    (tmp_path / "step.csv").write_text("\n".join([header, units, *inside, ""]))
    database = tmp_path / "run.duckdb"
    traceql.load([TRACES / f"{name}.pt.trace.json.gz", tmp_path / "step.csv"], database)
    with traceql.open(database) as trace:
        found = trace.select("""
            WITH placed AS (
                SELECT *, ROW_NUMBER() OVER (ORDER BY ts) - 1 AS place
                FROM kernel
                WHERE kind = 'kernel'
            )
            SELECT step.name, placed.place, profiled_launch.number
            FROM kernel_match
            INNER JOIN profiled_launch ON kernel_match.launch = profiled_launch.id
            INNER JOIN placed ON kernel_match.kernel_id = placed.id
            INNER JOIN step USING (step_id)
        """).rows()
    assert len(found) == len(inside) > 30
    for row in found:
        assert (step in row["name"], row["place"]) == (True, row["number"])


@pytest.mark.slow
def test_a_profile_may_be_loaded_alone_before_its_trace(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    traceql.load(NCU / f"{EAGER}-raw-base.csv.gz", database)
    with traceql.open(database) as alone:
        rows = alone.query("ncu.joined", limit=0).rows()
        assert sum(row["launches"] for row in rows) == 155
        assert {row["joined"] for row in rows} == {"only profile"}
        assert alone.query("quality.ledger", failed=True).rows() == []
        with pytest.raises(traceql.TraceqlError, match="has no trace; load one"):
            trace_file(alone)
    traceql.load(TRACES / f"{EAGER}.pt.trace.json.gz", database)
    again = traceql.load(NCU / f"{EAGER}-raw-base.csv.gz", database)
    assert (again.added, len(again.skipped)) == ([], 1)
    with traceql.open(database) as both:
        assert len(both.select("FROM kernel_match WHERE how = 'order'")) == 155


def test_the_sample_of_another_project() -> None:
    if not SAMPLE.is_file():
        pytest.skip("no sample")
    with SAMPLE.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["Metric Name"]]
    found = read_profile(SAMPLE)
    assert (found.page, found.launches.num_rows, found.metrics.num_rows) == (
        "details",
        1,
        len(rows),
    )
    by_key = {(row["section"], row["metric"]): row for row in found.metrics.to_pylist()}
    assert by_key["GPU Speed Of Light Throughput", "Memory Throughput"]["value"] == 61.84
    rate = by_key["Memory Workload Analysis", "Memory Throughput"]
    assert (rate["value"], rate["unit"]) == (196_456_177_859.63, "byte/s")
    assert {one.check_name: one.total for one in found.remarks}["rules of the profile"] == 11
