"""Causes in the host: what has them, what looks like them, what does not show them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cause_rows import lost, require_short, row_of
from traces import Event, host, kernel, launch, loaded, step

from traceql.sql.registry import definitions

STEPS = 20
PERIOD = 20_000.0  # of steps, us
Row = dict[str, Any]


class Program:
    """Decode steps of one rank in which the host launches a kernel at a time; times in us."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._calls = 0

    def operator(
        self, ts: float, *, dur: float = 50, work: float = 100, before: float = 10
    ) -> float:
        """An operator that launches its kernel after some time; gives when the kernel ends."""
        self._calls += 1
        self.events += [
            host("aten::add", ts=ts, dur=dur),
            launch(ts=ts + before, dur=5, correlation=self._calls),
            kernel(ts=ts + before + 10, dur=work, correlation=self._calls),
        ]
        return ts + before + 10 + work

    def copy(self, ts: float, name: str, dur: float) -> None:
        self._calls += 1
        self.events += [
            launch(ts=ts, correlation=self._calls, name="cudaMemcpyAsync"),
            kernel(name, ts=ts + 5, dur=dur, correlation=self._calls, cat="gpu_memcpy"),
        ]

    def call(self, name: str, ts: float, dur: float) -> None:
        self._calls += 1
        self.events.append(launch(ts=ts, dur=dur, correlation=self._calls, name=name))

    def steps(self, dur: float = 15_000) -> Iterator[tuple[int, float]]:
        """Begins each step with three operators; gives its number, and the time after them."""
        for number in range(STEPS):
            ts = number * PERIOD
            self.events.append(step(ts=ts, dur=dur, generation=(4, 4)))
            for place in range(3):
                self.operator(ts + 200 + 200 * place)
            yield number, ts + 1_000

    def causes(self, folder: Path) -> dict[str, Row]:
        return causes(folder, self.events)


def causes(folder: Path, *ranks: Sequence[Event]) -> dict[str, Row]:
    with loaded(folder, *ranks) as run:
        return {row["cause"]: row for row in run.select("SELECT * FROM diagnosis").rows()}


def state(row: Row) -> tuple[str, str]:
    return row["state"], row["reason"]


# --- stops, waits and allocations of the launching thread ----------------------------------------


def test_stops_of_five_milliseconds_are_those_of_pythons_lock(tmp_path: Path) -> None:
    """14 of 18 inner steps stop for 5.05 ms inside an operator whose median takes 50 us."""
    program = Program()
    for number, ts in program.steps():
        if number % 4:
            program.operator(ts, dur=5_100, before=5_050)
    found = program.causes(tmp_path)["launch_thread_starved"]
    assert found["state"] == "confirmed"
    assert found["headline"] == (
        "Launching threads stop 14 times for 5 ms: other Python threads hold the lock"
    )
    # 14 x 5.05 ms of 20 steps, of which the kernel before the operator hides nothing.
    assert found["saving_ns"] == pytest.approx(14 * 5.05e6 / STEPS, rel=0.05)


def test_stops_of_other_lengths_are_those_of_a_shared_core(tmp_path: Path) -> None:
    program = Program()
    for number, ts in program.steps():
        stop = 8_000 if number % 2 else 4_000
        program.operator(ts, dur=stop + 100, before=stop)
    found = program.causes(tmp_path)["launch_thread_starved"]
    assert found["state"] == "confirmed"
    assert found["headline"].startswith("Launching threads of rank 0 stop 18 times")
    assert "taskset" in found["remedy"]


def test_calls_that_block_and_first_calls_are_no_stops(tmp_path: Path) -> None:
    program = Program()
    for number, ts in program.steps():
        program.call("cudaStreamSynchronize", ts, 5_050)
        program.events.append(host(f"aten::first_{number}", ts=ts + 5_100, dur=5_050))
        program.operator(ts + 10_200)
    found = program.causes(tmp_path)["launch_thread_starved"]
    assert state(found) == (
        "ruled out", "no launching thread stops for more than 1 ms in a call that does not block"
    )  # fmt: skip


def test_a_wait_within_a_step_costs_the_time_until_the_next_launch(tmp_path: Path) -> None:
    """The wait ends with the kernel; the next one is launched 3 ms later."""
    program = Program()
    for _, ts in program.steps():
        ended = program.operator(ts, work=500)
        program.call("cudaStreamSynchronize", ts + 100, ended - ts - 95)
        program.operator(ended + 3_000)
    found = program.causes(tmp_path)["host_sync"]
    assert found["state"] == "confirmed"
    assert found["headline"] == "The host waits for its GPU within steps, 1 times in each"
    assert found["saving_ns"] == pytest.approx(3.02e6, rel=0.05)


def test_one_wait_at_the_end_of_a_step_is_normal(tmp_path: Path) -> None:
    program = Program()
    for _, ts in program.steps():
        ended = program.operator(ts, work=500)
        program.call("cudaStreamSynchronize", ts + 100, ended - ts - 95)
    assert state(program.causes(tmp_path)["host_sync"]) == (
        "ruled out", "hosts wait only between steps, as without asynchronous scheduling"
    )  # fmt: skip


def test_without_launch_calls_nothing_is_known_of_the_host(tmp_path: Path) -> None:
    program = Program()
    for _, ts in program.steps():
        program.operator(ts)
    events = [one for one in program.events if one["cat"] in ("kernel", "user_annotation")]
    found = causes(tmp_path, events)
    names = ("launch_thread_starved", "host_sync", "allocator")
    assert {state(found[name]) for name in names} == {
        ("undecided", "launch calls were not recorded")
    }
    assert found["launch_blocking_env"]["state"] == "undecided"


def test_allocations_in_steps_and_at_the_start(tmp_path: Path) -> None:
    program, start = Program(), Program()
    for _, ts in program.steps():
        program.call("cudaMalloc", ts + 200, 900)
        program.operator(ts + 1_500)
    found = program.causes(tmp_path / "steps")["allocator"]
    assert found["state"] == "confirmed"
    assert found["remedy"] == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    for number, ts in start.steps():
        if number == 0:
            start.call("cudaMalloc", ts + 200, 900)
        start.operator(ts + 1_500)
    assert start.causes(tmp_path / "start")["allocator"]["state"] == "ruled out"


@pytest.mark.parametrize("blocks", [True, False])
def test_launches_that_last_as_long_as_their_kernels(tmp_path: Path, blocks: bool) -> None:
    program = Program()
    for _ in program.steps():
        pass
    if blocks:
        for event in program.events:
            if event["cat"] == "cuda_runtime":
                event["dur"] = 130  # the kernel ends 110 us after the call began
    found = program.causes(tmp_path)["launch_blocking_env"]
    assert found["state"] == ("confirmed" if blocks else "ruled out")
    if blocks:
        assert found["headline"] == "60 of 60 launches return only when their kernel has ended"
        assert found["remedy"] == "unset CUDA_LAUNCH_BLOCKING"


@pytest.mark.parametrize(
    ("name", "confirmed"),
    [
        ("Memcpy HtoD (Pageable -> Device)", {"pageable_copies"}),
        ("Memcpy HtoD (Pinned -> Device)", {"exposed_copies"}),
    ],
)
def test_copies_that_run_alone(tmp_path: Path, name: str, confirmed: set[str]) -> None:
    """Each takes 2 of 20 ms."""
    program = Program()
    for _, ts in program.steps():
        program.copy(ts + 1_000, name, 2_000)
        program.operator(ts + 5_000)
    found = program.causes(tmp_path)
    both = ("pageable_copies", "exposed_copies")
    assert {one for one in both if found[one]["state"] == "confirmed"} == confirmed
    (one,) = confirmed
    assert found[one]["saving_ns"] == pytest.approx(2e6 * (STEPS - 2) / STEPS, rel=0.05)


# --- scheduling ----------------------------------------------------------------------------------

SEQUENTIAL = [
    {"claims": [{"unit": 0, "ns": 1}], "steps": 40, "lost_ns": 2e6, "pct": 40.0,
     "rank": 0, "ts": 0, "dur": 1}
]  # fmt: skip
ENGINE = [
    {"steps": 40, "inner_steps": 38, "engine_steps": 40, "decode_steps": 40, "is_other": False,
     "is_vllm": True, "has_launches": True}
]  # fmt: skip
TRAINING = [ENGINE[0] | {"engine_steps": 0, "decode_steps": 0, "is_other": True, "is_vllm": False}]


def speculation(config: str = "{}", **setting: Any) -> Row:
    given = {"has_run_json": True, "has_config": True, "config": config} | setting
    return row_of(
        "speculation_no_async",
        engine_setting=[given],
        sequential_loss=SEQUENTIAL,
        step_count=ENGINE,
        scheduler_step=[{"drafted": 4, "accepted": 3}],
    )


def test_the_remedy_of_ngram_speculation_keeps_its_parameters() -> None:
    found = speculation(
        '{"speculative_config": {"prompt_lookup_max": 3, "prompt_lookup_min": 2}}',
        speculation="ngram", async_scheduling=False, drafted_tokens=5,
    )  # fmt: skip
    assert found["is_confirmed"]
    require_short(found)
    assert found["remedy"] == (
        '--speculative-config \'{"method":"ngram_gpu","num_speculative_tokens":5,'
        '"prompt_lookup_max":3,"prompt_lookup_min":2}\''
    )
    assert "3 of 4 drafted tokens were accepted (75%)" in found["evidence"][2]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({}, "the engine does not speculate"),
        ({"speculation": "eagle3", "async_scheduling": False},
         "speculation with eagle3 allows asynchronous scheduling"),
        ({"speculation": "ngram", "async_scheduling": True}, "scheduling is asynchronous"),
    ],
)  # fmt: skip
def test_speculation_that_allows_asynchronous_scheduling(setting: Row, reason: str) -> None:
    found = speculation(**setting)
    assert (found["is_confirmed"], found["reason"]) == (False, reason)


def test_without_configuration_scheduling_is_unknown() -> None:
    assert speculation(has_config=False)["is_confirmed"] is None
    assert synchronous(has_config=False)["is_confirmed"] is None


def synchronous(*said: str, **setting: Any) -> Row:
    given = {"has_run_json": True, "has_config": True, "config": "{}"} | setting
    return row_of(
        "sync_scheduling",
        engine_setting=[given],
        sequential_loss=SEQUENTIAL,
        step_count=ENGINE,
        log_message=[{"text": text} for text in said],
    )


def test_synchronous_scheduling_and_what_turned_it_off() -> None:
    found = synchronous(async_scheduling=False)
    assert found["is_confirmed"]
    require_short(found)
    assert "without --no-async-scheduling" in found["remedy"]
    by_executor = synchronous(
        "Async scheduling will be disabled because it is not supported with the `ray` "
        "distributed executor backend. ",
        async_scheduling=False,
    )
    assert by_executor["remedy"].startswith("--distributed-executor-backend mp")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"async_scheduling": True}, "scheduling is asynchronous"),
        ({"pp": 2}, "pipeline parallelism excludes asynchronous scheduling"),
        ({"speculation": "ngram"}, "speculation with ngram excludes asynchronous scheduling"),
        ({"config": '{"model_config": {"runner_type": "pooling"}}'},
         "vLLM schedules pooling models synchronously, because that is faster"),
    ],
)  # fmt: skip
def test_what_vllm_would_refuse_is_not_advised(setting: Row, reason: str) -> None:
    found = synchronous(**({"async_scheduling": False} | setting))
    assert (found["is_confirmed"], found["reason"]) == (False, reason)


def test_training_has_no_engine_to_schedule() -> None:
    for name in ("speculation_no_async", "sync_scheduling"):
        found = row_of(name, sequential_loss=SEQUENTIAL, step_count=TRAINING)
        assert (found["is_confirmed"], found["reason"]) == (
            False, "no step is one of an inference engine"
        )  # fmt: skip


@pytest.mark.parametrize(("busy_ms", "saved_ms"), [(3.0, 2.0), (0.5, 0.5)])
def test_overlap_saves_at_most_the_shorter_of_work_and_loss(
    busy_ms: float, saved_ms: float
) -> None:
    """A step loses 4 ms with the profiler, 2 ms without it."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE time_scale AS SELECT 1 AS devices, 1 AS steps, 0.5 AS scale, "
        f"{busy_ms * 1e6} AS busy_ns, 1e7 AS step_ns"
    )
    con.execute(
        "CREATE TABLE time_unit AS SELECT 0 AS unit, 'lost' AS part, 'host' AS cause, "
        "4000000 AS ns, 0 AS number, 0 AS rank, 0 AS longest_ts, 1 AS longest_ns"
    )
    (row,) = con.sql(definitions()["sequential_loss"].source).to_arrow_table().to_pylist()
    assert row["claims"][0]["ns"] / 1e6 * 0.5 == pytest.approx(saved_ms)
    assert row["pct"] == pytest.approx(saved_ms * 10)


def test_steps_are_bound_by_hosts_that_cost_a_tenth_of_their_work() -> None:
    """Of 2 ms of work; half of what is lost remains without the profiler."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE time_scale AS SELECT 1 AS devices, 0.5 AS scale, 9000000.0 AS lost_ns"
    )
    con.execute("CREATE TABLE step_count AS SELECT 3 AS inner_steps")
    con.execute(
        "CREATE TABLE engine_step AS SELECT number AS step_id, number, 'decode' AS phase, "
        "'full' AS graph_mode, 2000000 AS busy_ns, host_lost_ns, number = 3 AS is_edge "
        "FROM (VALUES (0, 0.0), (1, 300000.0), (2, 500000.0), (3, 900000.0)) "
        "AS listed(number, host_lost_ns)"
    )
    bound = con.sql(definitions()["host_bound_step"].source)
    assert sorted(bound.project("number, is_bound").fetchall()) == [
        (0, False), (1, False), (2, True)
    ]  # fmt: skip


# --- graphs, and hosts without a known cause -----------------------------------------------------

LOSS = {
    "steps": 38, "are_enough": True, "decode_steps": 38, "launched_steps": 38, "all_steps": 38,
    "busy_ns": 2e6, "lost_ns": 9e6, "pct": 80.0, "claims": [{"unit": 0, "ns": 1}],
    "rank": 0, "ts": 0, "dur": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "counts", "has_config", "confirmed"),
    [
        ({}, ENGINE, False, True),
        ({}, ENGINE, True, False),
        ({}, TRAINING, False, False),
        ({"pct": 3.0}, ENGINE, False, False),
        ({"steps": 2, "are_enough": False}, ENGINE, False, False),
        ({}, [ENGINE[0] | {"steps": 2, "inner_steps": 0}], False, None),
    ],
)
def test_without_configuration_waiting_for_hosts_has_no_known_cause(
    loss: Row, counts: list[Row], has_config: bool, confirmed: bool | None
) -> None:
    found = row_of(
        "host_bound_unknown",
        host_bound_loss=[LOSS | loss],
        step_count=counts,
        engine_setting=[{"has_run_json": has_config, "has_config": has_config}],
    )
    assert found["is_confirmed"] is confirmed
    if confirmed:
        require_short(found)
        assert found["headline"].endswith("why is not recorded")
        assert found["remedy"].startswith("traceql capture run")
    else:
        assert found["reason"]


@pytest.mark.parametrize(
    ("scale", "has_config", "counts", "confirmed"),
    [
        (0.5, True, ENGINE, True),
        (None, True, ENGINE, None),  # the profiler may add all of it
        (0.5, False, ENGINE, None),
        (0.5, False, TRAINING, True),
    ],
)
def test_slow_hosts_need_a_run_without_the_profiler(
    scale: float | None, has_config: bool, counts: list[Row], confirmed: bool | None
) -> None:
    found = row_of(
        "slow_hosts",
        host_bound_loss=[LOSS],
        step_count=counts,
        engine_setting=[{"has_run_json": True, "has_config": has_config}],
        time_scale=[{"devices": 1, "steps": 40, "busy_ns": 2e6, "lost_ns": 9e6, "scale": scale}],
    )
    assert found["is_confirmed"] is confirmed
    if confirmed:
        require_short(found)
        assert "graph" not in found["remedy"]
    else:
        assert found["reason"]


def padded(*groups: tuple[int, int, int, float], sizes: list[int] | None) -> Row:
    """Groups of decode steps: how many, tokens, rows of the graph, work in ms."""
    steps: list[Row] = []
    tokens: list[Row] = []
    units: list[Row] = []
    for count, own, rows, busy in groups:
        for _ in range(count):
            number = len(steps)
            ids = {"step_id": number, "rank": 0}
            steps.append(ids | {
                "number": number, "phase": "decode", "graph_mode": "full", "tokens": own,
                "busy_ns": int(busy * 1e6), "is_edge": False,
            })  # fmt: skip
            tokens.append(ids | {"tokens": own, "executed_tokens": rows})
            units.append(
                {"unit": number, "part": "computing", "step_id": number, "ns": int(busy * 1e6)}
            )
    setting = {"has_config": sizes is not None, "capture_sizes": sizes}
    return row_of(
        "graph_padding", engine_step=steps, step_tokens=tokens, time_unit=units,
        engine_setting=[setting],
    )  # fmt: skip


def test_padding_saves_what_smaller_graphs_of_the_run_show() -> None:
    """20 steps of 2.0 ms in graphs of 512 rows; graphs of 128 hold them too, and take 1.5 ms."""
    found = padded((20, 100, 512, 2.0), (10, 110, 128, 1.5), sizes=[128, 512])
    assert found["is_confirmed"]
    require_short(found)
    assert not found["is_remark"]
    assert sum(claim["ns"] for claim in found["claims"]) == pytest.approx(20 * 0.5e6)
    assert found["remedy"] == "--cudagraph-capture-sizes 104 128 512"


def test_padding_of_unknown_cost_is_a_remark() -> None:
    found = padded((20, 18, 128, 2.0), sizes=[128])
    assert found["is_confirmed"]
    assert found["is_remark"]
    assert (
        found["headline"] == "Graphs of 20 decode steps compute 128 rows for 18 tokens: 86% padding"
    )
    assert found["claims"] is None


def test_few_padded_rows_are_within_a_tile() -> None:
    assert padded((20, 9, 16, 2.0), sizes=[8, 16])["is_confirmed"] is False


# --- what the log tells --------------------------------------------------------------------------

WINDOW = {"run": "run", "window_ts": 0, "window_dur": 2_000_000_000}
BASE = 1_700_000_000_000_000_000


def collecting(
    *said: str, stop_ms: int = 50, steps: int = 1, counts: Sequence[Row] = ENGINE
) -> Row:
    """Steps with such a stop, of 40."""
    return row_of(
        "garbage_collection",
        log_message=[{"run": "run", "text": text, "unix_ns": BASE} for text in said],
        run=[WINDOW],
        trace=[{"rank": 0, "base_time_ns": BASE}],
        step_count=counts,
        time_scale=[{"steps": 40, "devices": 1}],
        engine_step=[{"step_id": n, "rank": 0, "number": n, "is_edge": False} for n in range(40)],
        time_unit=[
            lost(n, stop_ms * 1_000_000, step_id=n, number=n, cause="host", is_waiting=False)
            for n in range(steps)
        ],
    )


def test_collections_are_known_from_the_log() -> None:
    found = collecting(
        "GC took 47.512ms to complete. Collected 3 objects (out of 9) in GC generation 2."
    )
    assert found["is_confirmed"]
    require_short(found)
    assert sum(claim["ns"] for claim in found["claims"]) == 50_000_000


@pytest.mark.parametrize(
    ("given", "confirmed"),
    [
        ({}, None),  # a rare stop, and no log of collections
        ({"stop_ms": 2}, False),
        ({"counts": [ENGINE[0] | {"has_launches": False}]}, None),
        ({"steps": 10}, False),  # too many for collections
    ],
)
def test_stops_without_a_log_are_no_collections(given: Row, confirmed: bool | None) -> None:
    found = collecting(**given)
    assert found["is_confirmed"] is confirmed
    assert found["reason"]


def test_a_collection_of_another_length_is_not_the_stop() -> None:
    assert collecting("GC took 6.100ms to complete.")["is_confirmed"] is False


def compiling(*stalls: Row, said: Sequence[str] = (), launches: int = 1) -> Row:
    return row_of(
        "jit_compile_in_serving",
        stall_claim=stalls,
        launch=[{"id": n} for n in range(launches)],
        log_message=[{"run": "run", "text": text, "unix_ns": BASE - 10**11} for text in said],
        run=[WINDOW],
        trace=[{"rank": 0, "base_time_ns": BASE}],
        time_scale=[{"steps": 40, "devices": 1, "step_ns": 1e7}],
    )


def test_code_that_is_loaded_while_serving() -> None:
    loads = {
        "kind": "module", "calls": 2, "steps": 1, "ranks": 1, "name": "cuModuleLoadData",
        "ns": 40_000_000, "claims": [{"unit": 0, "ns": 1}], "rank": 0, "ts": 0, "dur": 20_000_000,
    }  # fmt: skip
    found = compiling(loads)
    assert found["is_confirmed"]
    require_short(found)


def test_a_compilation_before_the_recorded_steps_explains_none_of_them() -> None:
    found = compiling(said=["Triton kernel JIT compilation during inference: reject_kernel. This"])
    assert found["is_confirmed"] is False
    assert "reject_kernel" in found["reason"]
    assert compiling(launches=0)["is_confirmed"] is None


def masked(name: str, waits: int, backend: str = "guidance") -> Row:
    """Steps whose sampling waits 1 of 10 ms for its first kernel."""
    numbers = range(waits)
    return row_of(
        "structured_output_masks",
        engine_setting=[{
            "has_config": True,
            "config": f'{{"structured_outputs_config": {{"backend": "{backend}"}}}}',
        }],
        engine_step=[{"step_id": n, "rank": 0, "number": n, "is_edge": False} for n in numbers],
        kernel=[{"id": n, "kind": "kernel", "name": name, "step_id": n} for n in numbers],
        lost_interval=[
            {"rank": 0, "part": "idle", "cause": "host", "root_step_id": n, "ts": n,
             "dur": 1_000_000, "next_kernel_id": n}
            for n in numbers
        ],
        time_unit=[
            lost(n, 2_000_000, step_id=n, number=n, root_step_id=n, cause="host", is_waiting=False)
            for n in numbers
        ],
        time_scale=[{"steps": 40, "devices": 1, "step_ns": 1e7}],
    )  # fmt: skip


def test_masks_of_grammars_that_sampling_waits_for() -> None:
    found = masked("apply_token_bitmask_inplace_kernel", 20)
    assert found["is_confirmed"]
    require_short(found)
    assert sum(claim["ns"] for claim in found["claims"]) == 20_000_000
    assert found["remedy"] == "--structured-outputs-config.backend xgrammar"
    assert "xgrammar" not in masked("apply_token_bitmask_kernel", 20, "xgrammar")["remedy"]


def test_sampling_without_masks_and_few_masks() -> None:
    assert masked("argmax_kernel", 20)["is_confirmed"] is False
    assert masked("apply_token_bitmask_inplace_kernel", 5)["is_confirmed"] is False
    assert masked("argmax_kernel", 0)["is_confirmed"] is None


# --- graphs that are too small, or piecewise ------------------------------------------------------


def graphs(
    cause: str, *groups: tuple[int, int, str, float], counts: Row | None = None, **setting: Any
) -> Row:
    """Groups of decode steps with 2 ms of work: how many, requests, graph mode, ms lost."""
    steps: list[Row] = []
    units: list[Row] = []
    for count, requests, mode, loss in groups:
        for _ in range(count):
            number = len(steps)
            steps.append({
                "step_id": number, "rank": 0, "number": number, "phase": "decode",
                "graph_mode": mode,
                "tokens": requests, "requests": requests, "is_edge": False, "busy_ns": 2_000_000,
                "host_lost_ns": loss * 1e6, "between_ns": 0.0,
            })  # fmt: skip
            units.append(lost(
                number, int(loss * 1e6), root_step_id=number, step_id=number, cause="host",
                is_waiting=False, is_between=False,
            ))  # fmt: skip
    given = {"has_config": True, "cudagraph_mode": "FULL_AND_PIECEWISE", "enforce_eager": False}
    return row_of(
        cause, engine_step=steps, time_unit=units, step_count=[ENGINE[0] | (counts or {})],
        engine_setting=[given | setting],
        time_scale=[{
            "devices": 1, "steps": len(steps), "busy_ns": 2e6, "lost_ns": 5e6, "step_ns": 7e6,
        }],
    )  # fmt: skip


SIX: Row = {"capture_sizes": [1, 2, 4, 8], "max_capture_size": 8, "max_num_seqs": 6}


def test_full_graphs_stop_where_a_batch_is_padded_beyond_the_most_requests() -> None:
    """5 and 6 requests are padded to 8; full graphs exist up to 6. They lose 3 ms, full ones 1."""
    found = graphs("piecewise_graphs", (20, 4, "full", 1.0), (10, 6, "piecewise", 3.0), **SIX)
    assert found["is_confirmed"]
    require_short(found)
    assert found["headline"] == (
        "Full graphs stop at 4 requests: 10 decode steps of up to 6 run piecewise"
    )
    assert found["remedy"].startswith("--max-num-seqs 8,")
    assert sum(claim["ns"] for claim in found["claims"]) == pytest.approx(10 * 2e6)


def test_the_mode_may_exclude_full_graphs() -> None:
    found = graphs("piecewise_graphs", (20, 4, "piecewise", 3.0), cudagraph_mode="PIECEWISE")
    assert found["is_confirmed"]
    require_short(found)
    assert found["remedy"].startswith("-cc.cudagraph_mode=FULL_AND_PIECEWISE")


@pytest.mark.parametrize(
    ("groups", "setting", "confirmed"),
    [
        ([(20, 4, "full", 1.0)], SIX, False),
        ([(20, 6, "piecewise", 0.1)], SIX, False),  # bound by the GPU
        ([(20, 6, "piecewise", 3.0)], {"has_config": False}, None),
        ([(20, 6, "piecewise", 3.0)], SIX | {"max_num_seqs": 128}, None),  # for another reason
    ],
)
def test_piecewise_graphs_without_a_known_reason(
    groups: list[tuple[int, int, str, float]], setting: Row, confirmed: bool | None
) -> None:
    found = graphs("piecewise_graphs", *groups, **setting)
    assert found["is_confirmed"] is confirmed
    assert found["reason"]


def test_steps_that_exceed_the_captured_sizes() -> None:
    sizes: Row = {"capture_sizes": [1, 2, 4], "max_capture_size": 4, "sets_capture_sizes": True}
    found = graphs("cuda_graph_sizes", (20, 16, "none", 5.0), **sizes)
    assert found["is_confirmed"]
    require_short(found)
    assert found["remedy"].startswith("--cudagraph-capture-sizes 1 2 4 8 16")
    for groups in ([(20, 16, "none", 0.1)], [(2, 16, "none", 5.0)], [(20, 4, "full", 5.0)]):
        assert graphs("cuda_graph_sizes", *groups, **sizes)["is_confirmed"] is False
    unknown = graphs("cuda_graph_sizes", (20, 16, "none", 5.0), has_config=False)
    assert unknown["is_confirmed"] is None


def test_graphs_that_are_off() -> None:
    found = graphs("cuda_graphs_off", (20, 16, "none", 5.0), enforce_eager=True)
    assert found["is_confirmed"]
    require_short(found)
    assert "--enforce-eager" in found["remedy"]
    bound_by_gpu = graphs("cuda_graphs_off", (20, 16, "none", 0.01), enforce_eager=True)
    assert bound_by_gpu["is_confirmed"] is False
    assert graphs("cuda_graphs_off", (20, 16, "none", 5.0))["is_confirmed"] is False
    unknown = graphs(
        "cuda_graphs_off", (20, 16, "none", 5.0), enforce_eager=None, cudagraph_mode=None
    )
    assert unknown["is_confirmed"] is None
    training = graphs(
        "cuda_graphs_off", (20, 16, "none", 5.0), counts={"is_other": True}, enforce_eager=True
    )
    assert training["is_confirmed"] is False


# --- one slow host --------------------------------------------------------------------------------


def two_hosts(slow_ms: float, lost_ms: float, **more: Any) -> Row:
    """20 steps of 2 ms of work; the host of rank 1 takes so long, that of rank 0 takes 4 ms."""
    ids = [
        {"step_id": 2 * n + rank, "number": n, "rank": rank} for n in range(20) for rank in (0, 1)
    ]
    tables: dict[str, Any] = {
        "engine_step": [
            one | {"is_edge": False, "host_ns": int(1e6 * (slow_ms if one["rank"] else 4))}
            for one in ids
        ],
        "host_bound_step": [
            {"step_id": one["step_id"], "number": one["number"], "busy_ns": 2_000_000,
             "lost_ns": lost_ms * 1e6, "is_bound": True}
            for one in ids
        ],
        "time_unit": [
            lost(n, int(2e6 * lost_ms), root_step_id=2 * n + 1, root_rank=1, cause="host", number=n)
            for n in range(20)
        ],
        "time_scale": [
            {"devices": 2, "steps": 20, "busy_ns": 2e6, "lost_ns": 10e6, "step_ns": 12e6}
        ],
        "trace": [{"rank": rank, "world_size": 2} for rank in (0, 1)],
        "host_stall": [
            {"kind": "stopped", "rank": 1, "is_edge": False, "dur": 8_000_000, "idle_ns": 8_000_000}
        ] * 12,
    } | more  # fmt: skip
    return row_of("slow_host_rank", **tables)


def test_a_host_that_others_wait_for() -> None:
    """8 ms more than the other host, of 10 lost."""
    found = two_hosts(slow_ms=12, lost_ms=10)
    assert found["is_confirmed"]
    require_short(found)
    assert found["headline"] == "The host of rank 1 takes 12.0 ms a step, the next one 4.0"
    assert "stops 12 times inside calls that do not block, for 8.0 ms" in found["evidence"][2]


def test_hosts_alike_and_hosts_that_run_ahead_are_not_slow() -> None:
    assert two_hosts(slow_ms=5, lost_ms=10)["is_confirmed"] is False
    assert two_hosts(slow_ms=200, lost_ms=0.5)["is_confirmed"] is False


def test_one_host_of_two_has_nothing_to_compare_with() -> None:
    found = two_hosts(slow_ms=12, lost_ms=10, trace=[{"rank": 1, "world_size": 2}])
    assert found["is_confirmed"] is None
    assert found["reason"] == "only one rank was loaded"
