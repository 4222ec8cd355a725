"""Causes of slow communication: real transfers, also stretched, with and without a run.json."""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import databases
import pytest
from cause_rows import lost, require_short, row_of

import traceql

pytestmark = pytest.mark.slow

NCCL = Path(__file__).parent / "data" / "nccl-2gpu"  # two H200 with NVLink, 16 to 256 MiB
NCCL_TP4 = databases.EXAMPLES / "qwen3-32b-tp4-graph-nccl"
NVLINK = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"
PCIE = NVLINK.replace("NV18", "SYS")


def causes_of(path: Path, database: Path) -> dict[str, dict[str, Any]]:
    with traceql.open(traceql.load(path, database).database) as run:
        return {row["cause"]: row for row in run.select("FROM diagnosis")}


def stretched(
    folder: Path,
    factor: float,
    *,
    environment: Mapping[str, str] | None = None,
    log: str | None = None,
    topology: str = NVLINK,
) -> Path:
    """A run directory of the recording in which all takes `factor` times as long."""
    for rank in (0, 1):
        document = json.loads(gzip.decompress((NCCL / f"rank{rank}.pt.trace.json.gz").read_bytes()))
        for event in document["traceEvents"]:
            for name in ("ts", "dur"):
                if name in event:
                    event[name] = round(event[name] * factor, 3)
        file = folder / "traces" / f"rank{rank}.pt.trace.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document))
    if environment is None:
        return folder
    run = {
        "schema_version": 1, "status": "complete", "kind": "program", "model": "m",
        "parallel": {"tp": 2, "pp": 1, "dp": 1, "ep": False, "world_size": 2},
        "environment": environment, "topology": topology, "host": {"name": "host"},
        "gpus": [{"index": n, "uuid": f"GPU-{n}", "name": "NVIDIA H200"} for n in (0, 1)],
        "versions": {"nccl": "2.28.9", "nvidia-nccl-cu13": "2.28.9"},
        "ranks": [
            {"rank": n, "tp_rank": n, "device_uuid": f"GPU-{n}", "host": "host",
             "trace": f"traces/rank{n}.pt.trace.json"}
            for n in (0, 1)
        ],
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    if log:
        (folder / "log.txt").write_text(log)
    return folder


# --- links and NCCL ----------------------------------------------------------------------------


def test_peer_to_peer_off_is_told_by_the_variable_and_the_speed(tmp_path: Path) -> None:
    """At the size that takes most, NCCL reaches 304 GB/s: 43 if all takes 7 times as long."""
    run = stretched(tmp_path / "run", 7, environment={"NCCL_P2P_DISABLE": "1"})
    found = causes_of(run, tmp_path / "run.duckdb")
    cause = found["p2p_off"]
    assert cause["state"] == "confirmed"
    assert cause["headline"] == (
        "NCCL reaches 43 GB/s without peer-to-peer transfers; NVLink 4 gives 305"
    )
    require_short(cause)
    assert cause["remedy"] == "unset NCCL_P2P_DISABLE"
    assert cause["evidence"][0] == "The environment has NCCL_P2P_DISABLE=1."
    assert found["nccl_protocol"]["state"] == "undecided"  # slow, but no variable says why
    assert found["exposed_communication"]["state"] == "ruled out"
    with traceql.open(tmp_path / "run.duckdb") as opened:
        (time,) = opened.select(
            "SELECT SUM(dur) / 2 AS ns FROM device_timeline WHERE part = 'exposed_transfer'"
        )  # two devices, each with one step
    assert cause["saving_ns"] == pytest.approx(6 / 7 * time["ns"], rel=0.03)


def test_peer_to_peer_off_is_told_by_the_log(tmp_path: Path) -> None:
    line = "host:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n"
    run = stretched(tmp_path / "run", 7, environment={}, log=line)
    cause = causes_of(run, tmp_path / "run.duckdb")["p2p_off"]
    assert cause["state"] == "confirmed"
    assert cause["remedy"].startswith("nvidia-smi topo -p2p r")


def test_transfers_at_speed_need_nothing(tmp_path: Path) -> None:
    """NCCL does not always follow a variable, and what counts is the speed."""
    run = stretched(tmp_path / "run", 1, environment={"NCCL_P2P_DISABLE": "1", "NCCL_PROTO": "LL"})
    found = causes_of(run, tmp_path / "run.duckdb")
    assert found["p2p_off"]["state"] == "ruled out"
    assert found["p2p_off"]["fine"] == "all-reduce (256 MiB at 304 GB/s)"
    assert found["nccl_protocol"]["state"] == "ruled out"


def test_slow_transfers_over_pcie_are_no_link_that_is_off(tmp_path: Path) -> None:
    run = stretched(tmp_path / "run", 20, environment={"NCCL_P2P_DISABLE": "1"}, topology=PCIE)
    cause = causes_of(run, tmp_path / "run.duckdb")["p2p_off"]
    assert (cause["state"], cause["reason"]) == (
        "ruled out",
        "the ranks are connected by PCIe 5.0 x16",
    )


def test_slow_transfers_without_an_environment_are_undecided(tmp_path: Path) -> None:
    found = causes_of(stretched(tmp_path / "run", 7), tmp_path / "run.duckdb")
    assert found["p2p_off"]["state"] == "undecided"
    assert "NCCL_DEBUG=INFO" in found["p2p_off"]["reason"]
    assert found["nccl_protocol"]["state"] == "undecided"
    general = found["exposed_communication"]
    assert general["severity"] == "notable"
    assert "NCCL_DEBUG=INFO" in general["remedy"]


@pytest.mark.parametrize(
    ("variables", "versions", "remedy"),
    [
        (
            {"NCCL_PROTO": "LL", "NCCL_MAX_NCHANNELS": "1"},
            {},
            "unset NCCL_MAX_NCHANNELS NCCL_PROTO",
        ),
        ({}, {"nccl": "2.18.1"}, "take the other NCCL out of LD_LIBRARY_PATH"),
    ],
)
def test_variables_or_an_old_library_make_large_messages_slow(
    variables: dict[str, str], versions: dict[str, str], remedy: str, tmp_path: Path
) -> None:
    run = stretched(tmp_path / "run", 3, environment=variables)
    document = json.loads((run / "run.json").read_text())
    document["versions"] |= versions
    (run / "run.json").write_text(json.dumps(document))
    found = causes_of(run, tmp_path / "run.duckdb")
    cause = found["nccl_protocol"]
    assert cause["state"] == "confirmed"
    assert cause["remedy"].startswith(remedy)
    # A third of the speed, within what two machines differ.
    (pct,) = [int(word[:-1]) for word in cause["headline"].split() if word.endswith("%")]
    assert pct == pytest.approx(100 / 3, abs=4)
    assert found["p2p_off"]["state"] == "undecided"


# --- all-reduce of decode steps ----------------------------------------------------------------


def with_setting(folder: Path, disabled: bool) -> Path:
    """The recording of TP 4 with a run.json that says whether custom all-reduce is disabled."""
    shutil.copytree(NCCL_TP4, folder / "traces")
    setting = {"parallel_config": {"disable_custom_all_reduce": disabled}}
    run = {
        "schema_version": 1, "status": "complete", "kind": "vllm-offline", "model": "m",
        "engine_config": setting,
        "model_config": json.loads((NCCL_TP4 / "config.json").read_text()),
        "parallel": {"tp": 4, "pp": 1, "dp": 1, "ep": False, "world_size": 4},
        "ranks": [
            {"rank": n, "tp_rank": n, "host": "host", "trace": f"traces/rank{n}.pt.trace.json.gz"}
            for n in range(4)
        ],
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    return folder


@pytest.fixture(scope="module")
def tp4(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return causes_of(NCCL_TP4, tmp_path_factory.mktemp("tp4") / "run.duckdb")


def test_nccl_reduces_small_messages(tp4: dict[str, dict[str, Any]]) -> None:
    """129 all-reduces of 40 KiB in 5 of 6 steps: 13.25 us, where custom ones take 4.37."""
    cause = tp4["custom_all_reduce_off"]
    assert cause["headline"] == ("NCCL reduces 40 KiB in 13.3 us; vLLM's own all-reduce takes 4.4")
    assert cause["saving_ns"] == pytest.approx(129 * 5 / 6 * (13_250 - 4_370), rel=0.05)
    assert cause["remedy"].startswith("vllm serve ... without --disable-custom-all-reduce; if")


def test_run_json_decides_whether_custom_all_reduce_is_disabled(tmp_path: Path) -> None:
    """NCCL reduces although it is not disabled: only the log of vLLM says why."""
    off = causes_of(with_setting(tmp_path / "off", True), tmp_path / "off.duckdb")
    assert off["custom_all_reduce_off"]["remedy"] == (
        "vllm serve ... without --disable-custom-all-reduce"
    )
    on = causes_of(with_setting(tmp_path / "on", False), tmp_path / "on.duckdb")
    assert on["custom_all_reduce_off"]["state"] == "undecided"
    assert "disable_custom_all_reduce false" in on["custom_all_reduce_off"]["reason"]


def test_custom_all_reduce_is_on(tmp_path: Path) -> None:
    found = causes_of(databases.EXAMPLES / databases.BATCH16, tmp_path / "run.duckdb")
    assert found["custom_all_reduce_off"]["state"] == "ruled out"
    assert "are not NCCL's (custom, 4.4 us)" in found["custom_all_reduce_off"]["reason"]
    assert found["exposed_communication"]["state"] == "ruled out"


def test_one_rank_of_four_decides_nothing(tmp_path: Path) -> None:
    file = NCCL_TP4 / "rank0.pt.trace.json.gz"
    found = causes_of(file, tmp_path / "run.duckdb")
    for cause in ("p2p_off", "custom_all_reduce_off", "nccl_protocol", "uneven_waiting"):
        assert found[cause]["state"] == "undecided", cause
    assert found["exposed_communication"]["state"] == "undecided"


# --- ranks -------------------------------------------------------------------------------------


def test_transfers_take_a_fifth_and_fewer_ranks_would_not_help(
    tp4: dict[str, dict[str, Any]],
) -> None:
    """Decode reads the weights, which takes half as many ranks longer than transfers save."""
    assert tp4["exposed_communication"]["severity"] == "notable"
    assert tp4["exposed_communication"]["saving_ns"] is None
    assert "fuse_allreduce_rms=true" in tp4["exposed_communication"]["remedy"]
    assert tp4["tp_too_large"]["state"] == "ruled out"
    assert "but reading the weights" in tp4["tp_too_large"]["reason"]


def only_prefill(folder: Path) -> Path:
    """The same recording up to its first decode step."""
    folder.mkdir()
    shutil.copy(NCCL_TP4 / "config.json", folder)
    for path in NCCL_TP4.glob("*.json.gz"):
        document = json.loads(gzip.decompress(path.read_bytes()))
        events = document["traceEvents"]
        kept = min(
            event["ts"]
            for event in events
            if event["name"].startswith("execute_context_0(0)_generation")
            and event.get("cat") == "gpu_user_annotation"
        )
        document["traceEvents"] = [
            event for event in events if event["ph"] == "M" or event.get("ts", 0) < kept
        ]
        (folder / path.name).write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return folder


def test_fewer_ranks_help_where_compute_is_bound_by_flops(tmp_path: Path) -> None:
    """129 all-reduces of 42 MB take 207 us with four ranks; of half the size with two, 87."""
    found = causes_of(only_prefill(tmp_path / "run"), tmp_path / "run.duckdb")
    cause = found["tp_too_large"]
    assert cause["state"] == "confirmed"
    assert cause["remedy"] == "--tensor-parallel-size 2 --data-parallel-size 2"
    require_short(cause)
    with traceql.open(tmp_path / "run.duckdb") as run:
        (step,) = run.select("SELECT COUNT(DISTINCT number) AS steps FROM step WHERE gpu_dur > 0")
    assert cause["saving_ns"] * step["steps"] == pytest.approx(129 * (207 - 87) * 1e3, rel=0.15)
    assert found["exposed_communication"]["state"] == "ruled out"


# --- stages ------------------------------------------------------------------------------------


def pipeline(fast_ns: int, slow_ns: int, **more: Any) -> dict[str, Any]:
    """Two stages of 18 layers, of which the first one waits 2 ms in each of two steps."""
    ranks = (0, 1)
    computed = dict(zip(ranks, (fast_ns, slow_ns), strict=True))
    inside = [lost(9 + n, 2_000_000, cause="pipeline", number=n) for n in (1, 2)]
    working = [
        lost(4 * rank + n, computed[rank] // 4, part="computing", rank=rank, number=n)
        for rank in ranks
        for n in range(4)
    ]
    tables: dict[str, Any] = {
        "time_scale": [{"devices": 2, "steps": 2, "profiled_ns": 5e6, "step_ns": 5e6}],
        "trace": [{"rank": n, "world_size": 2} for n in ranks],
        "layout": [{"rank": n, "pp_rank": n, "pp_size": 2} for n in ranks],
        "rank_model": [{"rank": n, "layers": 18} for n in ranks],
        "kernel": [
            {"rank": n, "layer": layer, "category": "gemm", "dur": 100_000}
            for n in ranks
            for layer in range(18 * n, 18 * n + 18)
        ],
        "step": [
            {"rank": 0, "number": n, "phase": "decode", "source": "execute_context"}
            for n in range(4)
        ],
        "time_unit": [*working, *inside],
    } | more
    return row_of("pipeline_bubble", **tables)


def test_a_stage_with_more_work_gives_up_layers() -> None:
    """Layers of 100 us, and 800 us beside those of the second: 2.2 ms each with 22 and 14."""
    assert pipeline(1_800_000, 2_150_000)["is_confirmed"] is None  # 9% is not unequal
    row = pipeline(1_800_000, 2_600_000)
    assert row["is_confirmed"]
    assert row["remedy"] == "VLLM_PP_LAYER_PARTITION=22,14"
    assert sum(claim["ns"] for claim in row["claims"]) == 4_000_000


def test_too_few_requests_leave_stages_without_a_batch() -> None:
    flight = [{"in_flight": 1, "running": 1}] * 3
    row = pipeline(1_800_000, 1_800_000, scheduler_step=flight)
    assert row["is_confirmed"]
    assert row["remedy"].startswith("more requests at a time than 1, so that 2 batches")
    assert pipeline(1_800_000, 1_800_000)["is_confirmed"] is None


def test_stages_of_a_recording_wait_for_an_empty_batch(tmp_path: Path) -> None:
    files = databases.files("qwen3-8b-pp2-graph")
    found = causes_of(files[0].parent, tmp_path / "run.duckdb")
    cause = found["pipeline_bubble"]
    assert cause["state"] == "confirmed"
    assert "8 of 15 iterations are empty" in cause["headline"]
    assert "VLLM_PP_LAYER_PARTITION" not in cause["remedy"]
    alone = causes_of(files[0], tmp_path / "alone.duckdb")
    assert alone["pipeline_bubble"]["state"] == "undecided"


def test_one_stage_has_no_bubble(tp4: dict[str, dict[str, Any]]) -> None:
    assert tp4["pipeline_bubble"]["reason"] == "the model runs in one stage"


# --- waiting -----------------------------------------------------------------------------------

Waiting = Callable[..., dict[str, Any]]


def waiting(*units: dict[str, Any], ranks: int = 2) -> dict[str, Any]:
    return row_of(
        "uneven_waiting",
        time_unit=units,
        trace=[{"rank": n, "world_size": 2} for n in range(ranks)],
        time_scale=[{"devices": 2, "steps": 4, "profiled_ns": 1e7, "step_ns": 1e7}],
    )


def test_waiting_for_kernels_of_any_rank_is_uneven() -> None:
    """1 ms of 10 in each of four steps on one of two devices: 0.5 ms a step."""
    units = [
        lost(n, 1_000_000, cause="kernel", root_rank=n % 2, rank=1 - n % 2, number=n)
        for n in range(4)
    ]
    row = waiting(*units)
    assert row["is_confirmed"]
    assert row["evidence"] == [
        "They wait 0.50 ms a step in collectives, as recorded.",
        "100% of it comes from kernels that take longer on the late rank.",
        "No single rank holds up the others.",
    ]
    require_short(row)


def test_waiting_for_a_host_is_no_uneven_waiting() -> None:
    units = [lost(n, 1_000_000, cause="host", root_rank=0, rank=1, number=n) for n in range(4)]
    assert waiting(*units)["is_confirmed"] is False


def test_waiting_whose_reason_was_not_recorded_is_undecided() -> None:
    """Without launch calls, the late rank may have waited for its host."""
    units = [lost(n, 1_000_000, cause="unknown", root_rank=0, rank=1, number=n) for n in range(4)]
    row = waiting(*units)
    assert row["is_confirmed"] is None
    assert "record launch calls" in row["reason"]


def test_two_steps_are_too_few_to_judge_waiting() -> None:
    units = [lost(n, 3_000_000, cause="kernel", root_rank=0, rank=1, number=n) for n in range(2)]
    assert waiting(*units)["is_confirmed"] is None
    assert waiting(ranks=1)["reason"] == "not all ranks are loaded, so waiting is unknown"


def peers(late_rank: int | None, *places: int) -> dict[str, Any]:
    return row_of(
        "late_peer",
        collective=[
            {"kernel_id": n, "rank": 0, "communicator_id": 0, "group_size": 8, "wait_ns": 1_000_000,
             "wait_source": "planes", "late_place": place, "late_rank": late_rank}
            for n, place in enumerate(places)
        ],
        kernel=[{"id": n, "ts": n, "dur": 1} for n in range(len(places))],
        time_unit=[lost(0, 4_000_000, cause="peer", communicator_id=0)],
        trace=[{"rank": 0, "world_size": 8}],
    )  # fmt: skip


def test_devices_wait_for_a_rank_that_was_not_loaded() -> None:
    row = peers(5, 5, 5, 5, 2)
    assert row["is_confirmed"]
    assert (
        row["headline"]
        == "Loaded ranks wait {saving} a step for rank 5 of a communicator of 8 ranks"
    )
    assert [claim["ns"] for claim in row["claims"]] == [3_000_000]  # three of four operations


def test_devices_that_wait_for_several_ranks_or_a_loaded_one_name_none() -> None:
    assert peers(5, 5, 2, 3, 4)["is_confirmed"] is False
    assert peers(0, 5, 5, 5, 5)["is_confirmed"] is False
    assert peers(None)["reason"] == "no device says for whom it waited"
