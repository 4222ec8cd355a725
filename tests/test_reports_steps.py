"""Steps and phases of recordings without vLLM's annotations, and recordings of graph captures.

Traces of engines are synthetic: step_name.csv has the source of each name. So are those of graph
captures, after vllm-project/vllm vllm/profiler/graph_capture.py.
"""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import traces
from databases import ROOT
from derived import database, rows
from forward_passes import DENSE, forward, run_of, whole

import traceql
from traceql.errors import TraceqlError

GPU_ONLY = ROOT.parent / "shared" / "reports" / "gpu-activities-only"
PATTERNS = ROOT / "traceql/readers/dialects/pytorch/tables/step_name.csv"
KERNELS = "SELECT step_id, COUNT(*) FROM kernel GROUP BY step_id ORDER BY step_id"
SOURCES = "SELECT source FROM step ORDER BY step_id"
COUNTS = """
    SELECT source, phase, context_requests, context_tokens, generation_requests, generation_tokens
    FROM step ORDER BY step_id
"""


@pytest.mark.skipif(not GPU_ONLY.exists(), reason="needs ../shared/reports")
def test_gpu_activities_alone_have_the_steps_of_their_passes(tmp_path: Path) -> None:
    with traceql.open(traceql.load(GPU_ONLY, tmp_path / "run.duckdb").database) as run:
        steps = run.sql("SELECT gpu_dur, graph_mode, source FROM step ORDER BY step_id").rows()
        spans = run.sql(
            "SELECT MAX(ts + dur) - MIN(ts) AS span_ns FROM kernel "
            "GROUP BY step_id ORDER BY step_id"
        ).rows()
        idle = "SELECT SUM(dur) / 1e6 AS ms FROM gap WHERE cause = 'host'"
        eager = f"{idle} AND step_id IN (SELECT step_id FROM step WHERE graph_mode = 'none')"
        idle_ms = [round(run.sql(one)[0]["ms"], 1) for one in (eager, idle)]
        found = run.sql("SELECT cause, remedy FROM finding ORDER BY rank_order").rows()
    of_report = [33.684, 40.892, 7.269, 5.429, 5.434, 5.439, 5.345]
    assert [round(row["span_ns"] / 1e6, 3) for row in spans] == of_report
    # The last copy of a step runs beside the next step: that time is not counted twice.
    assert [row["gpu_dur"] / 1e6 for row in steps] == pytest.approx(of_report, abs=0.01)
    assert [row["graph_mode"] for row in steps] == ["none"] * 2 + ["full"] * 5
    assert {row["source"] for row in steps} == {"forward_pass"}
    assert idle_ms == [31.6, 34.4]
    # No run.json says whether graphs are off for prefill, or too small.
    assert not {row["cause"] for row in found} & {"cuda_graphs_off", "cuda_graph_sizes"}


@pytest.mark.parametrize("pieces", [(), (0,)])
def test_each_pass_is_a_step_from_its_input_to_its_sampling(pieces: tuple[int, ...]) -> None:
    con = run_of(whole(), whole(), whole(), annotated=False, pieces=pieces)
    assert rows(con, KERNELS) == [(n, len(whole())) for n in range(3)]
    mode = "full" if pieces else "none"
    assert (
        rows(con, "SELECT source, phase, graph_mode FROM step")
        == [("forward_pass", None, mode)] * 3
    )
    # The launch of a step is its start on the host.
    assert rows(con, "SELECT ts, dur FROM step WHERE number = 1") == [
        (10_000_000, 0 if pieces else (len(whole()) - 1) * 1000)
    ]


def test_passes_without_launch_calls_are_steps_by_their_time_on_the_gpu() -> None:
    kernels = [
        event
        for n in range(3)
        for event in forward(whole(), ts=10_000 * n, first=1000 * n + 1, annotated=False)
        if event["cat"] != "cuda_runtime"
    ]
    con = database(*kernels)
    assert rows(con, KERNELS) == [(n, len(whole())) for n in range(3)]
    # Without the calls, nobody knows whether graphs were replayed.
    assert rows(con, "SELECT ts = gpu_ts, graph_mode FROM step") == [(True, None)] * 3


def test_lost_launch_calls_move_no_step_while_the_host_is_ahead() -> None:
    events = []
    for n in range(3):
        own = forward(whole(), ts=200 * n, first=1000 * n + 1, annotated=False)
        for event in own:  # the GPU is late by more than a step
            event["ts"] += 1000 * (n + 1) if event["cat"] != "cuda_runtime" else 0
        lost = {1000 * n + 1, 1000 * n + 2}
        events += [
            e for e in own if e["cat"] != "cuda_runtime" or e["args"]["correlation"] not in lost
        ]
    assert rows(database(*events), KERNELS) == [(n, len(whole())) for n in range(3)]


def test_results_are_copied_within_their_step_on_another_stream() -> None:
    def copy(ts: float, correlation: int) -> list[traces.Event]:
        where: dict[str, Any] = {"stream": 13, "correlation": correlation, "cat": "gpu_memcpy"}
        return [
            traces.launch(ts=ts, correlation=correlation, name="cudaMemcpyAsync"),
            # The GPU is late: the next step has begun there.
            traces.kernel("Memcpy DtoH (Device -> Pinned)", ts=ts + 10_020, dur=1, **where),
        ]

    events = []
    for n in range(3):
        events += forward(whole(), ts=10_000 * n, first=1000 * n + 1, annotated=False)
        events += copy(10_000 * n + 500, 1000 * n + 900)
    assert rows(database(*events), KERNELS) == [(n, len(whole()) + 1) for n in range(3)]


def test_the_end_of_an_earlier_step_is_in_none() -> None:
    con = run_of("gzzyi", whole(), whole(), annotated=False)
    # The copy to the device begins the first step; before it, sampling of an earlier one.
    assert rows(con, KERNELS) == [(0, 2 + len(whole())), (1, len(whole())), (None, 3)]


def test_drafts_belong_to_the_step_of_the_pass_before_them() -> None:
    step = whole() + "E" + DENSE + "ngz"
    con = run_of(step, step, step, annotated=False)
    assert rows(con, KERNELS) == [(n, len(step)) for n in range(3)]


@pytest.mark.parametrize(
    "passes",
    [[whole()], ["gegevg"] * 3, ["ngeageeg" * 4] * 3],
    ids=["one pass", "no model", "attention without sampling"],
)
def test_what_has_not_several_clear_passes_stays_one_step(passes: list[str]) -> None:
    con = run_of(*passes, annotated=False)
    assert rows(con, SOURCES) == [("trace",)]
    assert rows(con, KERNELS) == [(0, sum(map(len, passes)))]


def test_sampling_separates_passes_of_models_without_a_kv_cache_kernel() -> None:
    generate = "eEe" + "eggageevg" * 4 + "egze"
    con = run_of(generate, generate, generate, annotated=False)
    assert rows(con, SOURCES) == [("forward_pass",)] * 3
    # The sampled token is not copied to the host: the next step begins after sampling.
    own = len(generate)
    assert rows(con, KERNELS) == [(0, own - 1), (1, own), (2, own + 1)]


def test_training_is_not_split_at_its_metric() -> None:
    backward = traces.kernel("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", ts=500, dur=1)
    step = "eE" + "eggageevg" * 4 + "gz"
    events = [
        e for n in range(3) for e in forward(step, ts=1000 * n, first=1000 * n + 1, annotated=False)
    ]
    assert rows(database(*events, backward), SOURCES) == [("trace",)]


def gpu_annotation(
    name: str, *, ts: float, dur: float, stream: int = 7, **args: Any
) -> traces.Event:
    return traces.kernel(name, ts=ts, dur=dur, stream=stream, cat="gpu_user_annotation", **args)


@pytest.mark.parametrize("has_launches", [True, False])
def test_annotations_of_the_gpu_give_steps_and_phases(has_launches: bool) -> None:
    names = ["execute_context_2(64)_generation_0(0)", "execute_context_1(8)_generation_3(3)",
             "execute_context_0(0)_generation_3(3)"]  # fmt: skip
    events = []
    for n, name in enumerate(names):
        at = 10_000 * n
        own = forward("ggg", ts=at, first=100 * n + 1, annotated=False)
        events += [e for e in own if has_launches or e["cat"] != "cuda_runtime"]
        # The last kernel was launched after the annotation; a copy ran on another stream.
        events += [
            gpu_annotation(name, ts=at + 10, dur=9, **{"External id": n + 1}),
            gpu_annotation(name, ts=at + 12, dur=1, stream=13, **{"External id": n + 1}),
        ]
    con = database(*events)
    assert rows(con, COUNTS) == [
        ("execute_context", "prefill", 2, 64, 0, 0),
        ("execute_context", "mixed", 1, 8, 3, 3),
        ("execute_context", "decode", 0, 0, 3, 3),
    ]
    assert rows(con, KERNELS) == [(0, 3), (1, 3), (2, 3)]
    starts = [0, 10_000_000, 20_000_000] if has_launches else [10_000, 10_010_000, 20_010_000]
    assert rows(con, "SELECT ts FROM step ORDER BY step_id") == [(ts,) for ts in starts]


TRT, SGLANG, STEP = "tensorrt_llm", "sglang", "[Executor] _forward_step"
ENGINES = [
    (f"{STEP} 7: 1 ctx reqs, 512 ctx tokens, 3 gen reqs", TRT, "mixed", 1, 512, 3, None),
    (f"{STEP} 8: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", TRT, "decode", 0, 0, 32, None),
    (f"{STEP}: 2 ctx reqs, 0 gen reqs", TRT, "prefill", 2, None, 0, None),
    ("TrtGptModelInflightBatching::forwardAsync", TRT, None, None, None, None, None),
    ("step[DECODE bs=16]", SGLANG, "decode", 0, 0, 16, 16),
    ("step[DECODE bs=2 g_sqsq=2 g_sqsk=80 g_sk=80]", SGLANG, "decode", 0, 0, 2, 2),
    ("step[TARGET_VERIFY bs=4]", SGLANG, "decode", 0, 0, 4, None),
    ("step[EXTEND bs=2 toks=107]", SGLANG, "prefill", 2, 107, 0, 0),
    ("step[EXTEND bs=1 toks=8 c_sqsq=64 c_sqsk=64 c_sk=8]", SGLANG, "prefill", 1, 8, 0, 0),
    ("step[MIXED bs=3]", SGLANG, "mixed", None, None, None, None),
    ("step[IDLE bs=0]", SGLANG, "idle", 0, 0, 0, 0),
    ("prefill[bs=1 tok=1024 ctx=1024]", "atom", "prefill", 1, 1024, 0, 0),
    ("decode[bs=64 tok=64 d=64]", "atom", "decode", 0, 0, 64, 64),
    ("execute_7_context_1(sq8sk8sqsq64sqsk64)_generation_0(sq0sk0sqsq0sqsk0)",
     "execute_context", "prefill", 1, 8, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize("dialect", ["pytorch", "nsys"])
@pytest.mark.parametrize(("name", "expected"), [(one, rest) for one, *rest in ENGINES])
def test_annotations_of_engines_say_phase_requests_and_tokens(
    name: str, expected: list[Any], dialect: str
) -> None:
    cat = {"pytorch": "user_annotation", "nsys": "nvtx"}[dialect]
    # A draft is part of a step, and ProfilerStep is weaker evidence.
    con = database(
        traces.host("ProfilerStep#1", ts=0, dur=100, cat=cat),
        traces.host(name, ts=10, dur=20, cat=cat),
        traces.launch(ts=12, correlation=1),
        traces.kernel(ts=14, dur=3, correlation=1),
        traces.host("step[DRAFT_EXTEND_V2 bs=1]", ts=31, dur=5, cat=cat),
        traces.launch(ts=32, correlation=2),
        traces.kernel(ts=34, dur=3, correlation=2),
    )
    con.con.execute("UPDATE trace SET dialect = ?", [dialect])
    assert rows(con, COUNTS) == [tuple(expected)]
    assert rows(con, KERNELS) == [(0, 2)]


def test_each_pattern_matches_its_example_first() -> None:
    with PATTERNS.open(newline="") as file:
        patterns = list(csv.DictReader(file))
    for number, row in enumerate(patterns):
        same = [one for one in patterns if one["kind"] == row["kind"]]
        first = next(one for one in same if re.search(one["pattern"], row["example"]))
        assert first == patterns[number]


FORWARD = "sglang/srt/model_executor/model_runner.py(1200): forward_"
REPLAY = "sglang/srt/model_executor/cuda_graph_runner.py(800): replay"


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([f"{FORWARD}extend", REPLAY, f"{FORWARD}decode"], ["prefill", "decode", "decode"]),
        (["nn.Module: LlamaForCausalLM_0"] * 3, [None] * 3),
        (["nn.Module: LlamaForCausalLM_0"], [None]),  # one call is no evidence of steps
    ],
)
def test_frames_are_steps_if_nothing_annotates_them(frames: list[str], expected: list[Any]) -> None:
    events = []
    for n, name in enumerate(frames):
        events += [
            traces.host(name, ts=100 * n + 10, dur=50, cat="python_function"),
            # A model inside the model begins no step.
            traces.host(
                "nn.Module: GemmaForCausalLM_1", ts=100 * n + 20, dur=5, cat="python_function"
            )
            if "nn.Module" in name
            else traces.host("other.py(1): forward", ts=100 * n + 20, dur=5, cat="python_function"),
            traces.launch(ts=100 * n + 30, correlation=n + 1),
            traces.kernel(ts=100 * n + 35, dur=3, correlation=n + 1),
        ]
    con = database(*events)
    phases = [phase for (phase,) in rows(con, "SELECT phase FROM step ORDER BY step_id")]
    assert phases == expected
    assert rows(con, KERNELS) == [(n, 1) for n in range(len(frames))]


def capture(*, label: str = "capture_32_FULL", kernels: int = 0) -> list[traces.Event]:
    """The capture of one graph of 20 kernels, of which none runs."""
    return [
        traces.host(label, ts=0, dur=100, cat="user_annotation"),
        traces.launch(ts=1, correlation=1, name="cudaStreamBeginCapture"),
        *(traces.launch(ts=2 + n, dur=0.5, correlation=10 + n) for n in range(20)),
        traces.launch(ts=30, correlation=2, name="cudaStreamEndCapture"),
        *(traces.launch(ts=40 + n, dur=0.5, correlation=50 + n) for n in range(kernels)),
        *(traces.kernel(ts=60 + n, dur=0.5, correlation=50 + n) for n in range(kernels)),
    ]


@pytest.mark.parametrize("events", [capture(), capture(label="other", kernels=2)])
def test_a_graph_capture_is_no_run(tmp_path: Path, events: list[traces.Event]) -> None:
    file = traces.write(tmp_path / "graph_capture_rank_0.1.pt.trace.json", *events)
    with pytest.raises(TraceqlError, match=r"capture of CUDA graphs \(20 launch calls.*not a run"):
        traceql.load(file, tmp_path / "run.duckdb")
    assert not (tmp_path / "run.duckdb").exists()


def test_a_graph_capture_beside_a_run_is_left_out_with_a_line(tmp_path: Path) -> None:
    run = [event for n in range(2) for event in forward(whole(), ts=1000 * n, first=1000 * n + 1)]
    for rank in range(2):
        about = {"rank": rank, "world_size": 2}
        traces.write(tmp_path / "in" / f"rank{rank}.json", *run, distributedInfo=about)
    traces.write(tmp_path / "in" / "graph_capture_rank_0.1.pt.trace.json", *capture())
    loaded = traceql.load(tmp_path / "in", tmp_path / "run.duckdb")
    assert len(loaded.added) == 2
    assert [re.search("capture of CUDA graphs", one) is not None for one in loaded.others] == [True]
    with traceql.open(loaded.database) as opened:
        assert [row["rank"] for row in opened.sql("SELECT rank FROM trace ORDER BY rank")] == [0, 1]


def test_captures_that_name_no_kernel_are_not_read(tmp_path: Path) -> None:
    traces.write(tmp_path / "in" / "rank0.json", *forward(whole(), ts=0))
    beside = traces.write(tmp_path / "in" / "capture_traces" / "bs_1_rank0.json", *capture())
    loaded = traceql.load(tmp_path / "in", tmp_path / "run.duckdb")
    said = "recordings of graph captures; kernels have no graph node ids to name by them"
    assert loaded.others == [f"{beside.parent}: {said}"]


def test_a_run_that_captures_and_replays_graphs_is_a_run(tmp_path: Path) -> None:
    replays = [
        event
        for n in range(3)
        for event in (
            traces.launch(ts=200 + 50 * n, correlation=200 + n, name="cudaGraphLaunch"),
            *(traces.kernel(ts=210 + 50 * n + m, dur=0.5, correlation=200 + n) for m in range(20)),
        )
    ]
    file = traces.write(tmp_path / "rank0.json", *capture(), *replays)
    with traceql.open(traceql.load(file, tmp_path / "run.duckdb").database) as run:
        assert run.sql("SELECT COUNT(*) AS kernels FROM kernel WHERE in_graph")[0]["kernels"] == 60


FRAMES = [  # a layer: its modules, each with what it launches
    ("RMSNorm", 1, "cudaLaunchKernel"),
    ("QKVParallelLinear", 1, "cuLaunchKernelEx"),
    ("RMSNorm", 2, "cudaLaunchKernel"),
    ("Fill", 1, "cudaMemsetAsync"),
]


def captured_layers(file: Path, *, layers: int) -> None:
    """A synthetic recording of a capture with stacks."""
    events = [traces.launch(ts=1, correlation=1, name="cudaStreamBeginCapture")]
    for layer in range(layers):
        at = 100 + 100 * layer
        name = f"nn.Module: Qwen3DecoderLayer_{layer}"
        events.append(traces.host(name, ts=at, dur=90, cat="python_function"))
        for n, (module, number, call) in enumerate(FRAMES):
            frame = f"nn.Module: {module}_{2 * layer + number}"
            dims: dict[str, Any] = {"Input Dims": [[layers, n], []]}
            if module == "QKVParallelLinear":
                attention = f"nn.Module: Qwen3Attention_{layer}"
                events.append(traces.host(attention, ts=at + 10 * n, dur=9, cat="python_function"))
            events += [
                traces.host(frame, ts=at + 10 * n + 1, dur=7, cat="python_function"),
                traces.host(f"op{n}", ts=at + 10 * n + 2, dur=4, **dims),
                traces.launch(ts=at + 10 * n + 3, dur=1, correlation=at + n, name=call),
            ]
    events.append(traces.launch(ts=9000, correlation=2, name="cudaStreamEndCapture"))
    traces.write(file, *events)


def replayed_layers(file: Path) -> None:
    """A synthetic recording of two replays of a graph of two layers, whose nodes have numbers."""
    kernels = ["vllm::rms_norm_kernel", "nvjet_qkv", "vllm::rms_norm_kernel", "Memset (Device)"]
    run = []
    for replay in range(2):
        at = 1000 * replay
        run.append(traces.launch(ts=at, correlation=replay + 1, name="cudaGraphLaunch"))
        for n in range(8):
            cat = "gpu_memset" if n % 4 == 3 else "kernel"
            where: dict[str, Any] = {
                "cat": cat,
                "correlation": replay + 1,
                "graph node id": NODES[n],
            }
            run.append(traces.kernel(kernels[n % 4], ts=at + 10 + n, dur=0.5, **where))
    traces.write(file, *run)


NODES = [(7 << 32) + 10 + 2 * n for n in range(8)]


@pytest.mark.parametrize("named", [{}, {"0": NODES[:1]}, {"1": NODES[1:3]}])
def test_a_rank_with_a_new_number_keeps_the_nodes_of_its_captures(
    tmp_path: Path, named: dict[str, list[int]]
) -> None:
    """What graph_nodes.json names is that of the rank's number at the time."""
    replayed_layers(tmp_path / "b" / "b.json")
    captured_layers(tmp_path / "b" / "capture_traces" / "bs_1.json", layers=2)
    nodes = {rank: dict.fromkeys(map(str, ids), "model.norm") for rank, ids in named.items()}
    if nodes:
        (tmp_path / "b" / "graph_nodes.json").write_text(json.dumps(nodes))
    database = tmp_path / "run.duckdb"
    traceql.load(tmp_path / "b", database)
    work = traces.launch(ts=0, correlation=1), traces.kernel(ts=5, dur=1, correlation=1)
    traces.write(tmp_path / "a" / "a.json", *work)
    traceql.load(tmp_path / "a", database)
    sql = "SELECT graph_node_id, path FROM internal.graph_node WHERE rank = 1 ORDER BY ALL"
    with traceql.open(database) as run:
        named_once = run.select(sql).fetchall()
    found = dict(named_once)
    assert len(found) == len(named_once)
    by_file = named.get("1", [])
    lost = named.get("0", [])  # the file named it when its capture was read
    assert sorted(found) == [node for node in NODES if node not in lost]
    assert [node for node in NODES if found.get(node) == "model/norm"] == by_file


@pytest.mark.parametrize(("layers", "fits"), [((2,), True), ((2, 2), True), ((3,), False)])
def test_a_capture_names_the_nodes_of_the_replays_that_it_fits(
    tmp_path: Path, layers: tuple[int, ...], fits: bool
) -> None:
    replayed_layers(tmp_path / "in" / "rank0.json")
    for number, count in enumerate(layers):
        captured_layers(tmp_path / "in" / "capture_traces" / f"bs_{number}.json", layers=count)
    loaded = traceql.load(tmp_path / "in", tmp_path / "run.duckdb")
    assert ("8 graph nodes named by recordings of their capture" in loaded.notes) == fits
    with traceql.open(loaded.database) as opened:
        found = opened.sql(
            "SELECT layer, role, layer_source FROM kernel ORDER BY ts LIMIT 8"
        ).rows()
        passes = opened.select("SELECT pass, layer FROM layer ORDER BY ts").fetchall()
        assert (passes == [(0, 0), (0, 1), (1, 0), (1, 1)]) == fits
        shaped = opened.query("ops.by_shape").rows()
        # Two replays of two layers, in each of which an operator launched one kernel of 0.5 us.
        expected = {(f"op{n}", f"[[2,{n}],[]]", 4, 2000) for n in range(len(FRAMES))}
        found_shapes = {(r["name"], r["shapes"], r["kernels"], r["gpu_ns"]) for r in shaped}
        assert (found_shapes == expected) == fits
        stacks = opened.sql("SELECT stack FROM internal.graph_node ORDER BY graph_node_id").rows()
        first = " > ".join(
            ("nn.Module: Qwen3DecoderLayer_0", f"nn.Module: {FRAMES[0][0]}_{FRAMES[0][1]}")
        )
        assert [row["stack"] for row in stacks[:1]] == ([first] if fits else [])
    roles = ["input_norm", "qkv_proj", "post_attn_norm"]
    if fits:
        assert [row["layer"] for row in found] == [0] * 4 + [1] * 4
        assert [row["role"] for row in found if row["role"]] == roles * 2
        assert {row["layer_source"] for row in found} == {"graph_node"}
    else:
        assert "graph_node" not in {row["layer_source"] for row in found}
