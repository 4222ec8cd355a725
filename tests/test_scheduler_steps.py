"""What vLLM's scheduler had in each step, and what its log says of decisions."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_runs import run_directory
from scheduler import Asked, recorded, scheduled

import traceql
from capture.run_directory import write_steps
from capture.scheduler import note_of, recording_scheduler
from capture.server_metrics import engine_values, lines

# --- a note of each step ---------------------------------------------------------------------


class Scheduler:
    """As much of vLLM's scheduler as notes read."""

    def __init__(self, vllm_config: Any, **_: Any) -> None:
        free = iter((7, 1))
        pool = SimpleNamespace(num_gpu_blocks=11, get_num_free_blocks=lambda: next(free))
        self.kv_cache_manager = SimpleNamespace(block_pool=pool, enable_caching=True)
        self.max_num_running_reqs, self.max_num_scheduled_tokens = 8, 64
        self.num_spec_tokens = vllm_config.num_speculative_tokens
        prompt = {"a": 40, "b": 30, "c": 20}
        self.requests = {
            name: SimpleNamespace(num_prompt_tokens=tokens, num_preemptions=int(name == "c"))
            for name, tokens in prompt.items()
        }

    def get_request_counts(self) -> tuple[int, int]:
        return 3, 2

    def schedule(self, throttle: bool = False) -> Any:
        """Two requests begin, one of which has 16 tokens in the cache; one begins again."""
        new = [
            SimpleNamespace(req_id=name, num_computed_tokens=tokens)
            for name, tokens in (("a", 16), ("b", 0), ("c", 16))
        ]
        return SimpleNamespace(
            scheduled_new_reqs=new, total_num_scheduled_tokens=58, preempted_req_ids={"c"},
            scheduled_spec_decode_tokens={"a": [1, 2, 3], "b": [4, 5]}, throttle=throttle,
        )  # fmt: skip

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> str:
        return f"{len(model_runner_output.sampled_token_ids)} updated"


def config(drafts: int) -> Any:
    of_scheduler = SimpleNamespace(scheduler_cls="ours")
    of_scheduler.get_scheduler_cls = lambda: Scheduler
    return SimpleNamespace(scheduler_config=of_scheduler, num_speculative_tokens=drafts)


def test_a_step_carries_what_its_scheduler_had() -> None:
    made = recording_scheduler(config(drafts=3))
    output = made.schedule(True)
    assert output.throttle
    note = note_of(output)
    assert note is not None
    assert note.pop("unix_ns") > 10**18
    assert note == {
        "running": 3, "waiting": 2, "kv_blocks_used": 3, "kv_blocks": 10, "preempted": 1,
        "prefix_queried": 70, "prefix_hits": 16, "scheduled_tokens": 58,
        "max_scheduled_tokens": 64, "max_running": 8, "drafted": 5, "step": 0, "accepted": [],
    }  # fmt: skip
    # a: two of its three drafts and a token; b: none of its two, and a token.
    result = SimpleNamespace(
        req_id_to_index={"b": 0, "a": 1, "c": 2}, sampled_token_ids=[[4], [1, 2, 9], [6]]
    )
    assert made.update_from_output(output, result) == "3 updated"
    following = note_of(made.schedule())
    assert following is not None
    assert (following["step"], following["accepted"]) == (1, [(0, 2)])
    assert following["kv_blocks_used"] == 9


def test_an_engine_does_not_end_with_what_cannot_be_noted() -> None:
    made = recording_scheduler(config(drafts=0))
    made.requests.clear()
    output = made.schedule()
    assert note_of(output) is None
    assert made.update_from_output(output, SimpleNamespace(sampled_token_ids=[])) == "0 updated"


def test_each_replica_has_the_lines_of_its_first_rank(tmp_path: Path) -> None:
    for rank in range(4):
        iterations = [
            {"begin_unix_ns": 5, "scheduled": {}, "computed": {},
             "scheduler": {"unix_ns": 4, "running": rank, "step": 7 + n}}
            for n in range(2)
        ]  # fmt: skip
        (tmp_path / f"rank{rank}").mkdir()
        notes = json.dumps({"iterations": iterations, "accepted": [[6, 1], [7, rank]]})
        (tmp_path / f"rank{rank}" / "profiled.json").write_text(notes)
    write_steps(tmp_path, tmp_path, [{"rank": n, "dp_rank": n // 2} for n in range(4)])
    lines = (tmp_path / "scheduler.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"rank": rank, "number": n, "unix_ns": 4, "running": rank, "accepted": accepted}
        for rank in (0, 2)
        for n, accepted in enumerate((rank, None))
    ]


# --- a server without notes ------------------------------------------------------------------

_ENDPOINT = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{{engine="0",model_name="m"}} 4.0
vllm:num_requests_running{{engine="1",model_name="m"}} 3.0
vllm:num_requests_waiting{{engine="0",model_name="m"}} 2.0
vllm:num_requests_waiting_by_reason{{engine="0",model_name="m",reason="capacity"}} 9.0
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.25
vllm:num_preemptions_total{{engine="0",model_name="m"}} {preemptions}
vllm:prefix_cache_queries_total{{engine="0",model_name="m"}} {queried}
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="101"}} 1.0
"""


def test_counts_of_an_endpoint_are_those_since_the_sample_before() -> None:
    first = engine_values(_ENDPOINT.format(preemptions=7.0, queried="1.5e+03"))
    second = engine_values(_ENDPOINT.format(preemptions=9.0, queried="1.7e+03"))
    unknown = dict.fromkeys(("prefix_hits", "drafted", "accepted"))
    known = {
        "running": 4, "waiting": 2, "kv_blocks_used": 25, "kv_blocks": 100,
        "preempted": 2, "prefix_queried": 200,
    }  # fmt: skip
    less = dict.fromkeys(known) | {"running": 3}
    samples = [(10, first), (20, second), (30, engine_values("no metrics here"))]
    assert lines(samples, ranks_of_engine=2) == [
        {"rank": 0, "number": None, "unix_ns": 20} | unknown | known,
        {"rank": 2, "number": None, "unix_ns": 20} | unknown | less,
    ]


# --- the table -------------------------------------------------------------------------------

_TABLE = "SELECT {} FROM internal.scheduler_step ORDER BY rank, ts"
_LINE = {
    "rank": 0, "unix_ns": 1_000_000_500, "running": 2, "waiting": 1, "kv_blocks_used": 9,
    "kv_blocks": 10, "preempted": 0, "prefix_queried": None, "prefix_hits": None,
    "scheduled_tokens": 5, "max_scheduled_tokens": 64, "max_running": 8,
}  # fmt: skip


def rows(run: Path, columns: str) -> list[tuple[Any, ...]]:
    database = traceql.load(run, run.with_name("run.duckdb")).database
    with traceql.open(database) as opened:
        return [tuple(row.values()) for row in opened.select(_TABLE.format(columns))]


def write_lines(run: Path, *given: Any) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in given]
    (run / "scheduler.jsonl").write_text("\n".join(texts))


def test_a_step_of_the_scheduler_is_a_step_of_the_trace(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    write_lines(run, _LINE | {"number": 0}, _LINE | {"number": 1, "waiting": 0})
    found = rows(run, "number, step_id, ts, source, running, waiting, in_flight, kv_blocks_used")
    assert found == [(n, n, 500, "scheduler", 2, 1 - n, 2, 9) for n in range(2)]


def test_samples_of_an_endpoint_stand_beside_the_steps_of_the_workers(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    write_lines(run, _LINE)
    assert rows(run, "number, source, running, waiting, scheduled_tokens") == [
        (0, "steps.jsonl", 1, None, 8),
        (1, "steps.jsonl", 2, None, 5),
        (None, "metrics endpoint", 2, 1, 5),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"rank": 0, "number": 1, "unix_', "line 2: "),
        (_LINE | {"number": 0}, "line 2: step 0 of rank 0 again"),
        (_LINE | {"number": 1, "waiting": -1}, "line 2: Expected `int` >= 0"),
        (_LINE | {"number": 1, "unix_ns": 2**70}, "line 2: "),
        ({"rank": 0, "number": 1}, "line 2: Object missing required field `unix_ns`"),
    ],
)
def test_a_damaged_line_costs_itself(line: Any, reason: str, tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    write_lines(run, _LINE | {"number": 0}, line)
    assert rows(run, "number, source") == [(0, "scheduler")]
    with traceql.open(tmp_path / "run.duckdb") as opened:
        (check,) = opened.query("quality.ledger", failed=True).rows()
    assert (check["check_name"], check["value"], check["total"]) == ("scheduler.jsonl", 1, 2)
    assert reason in check["note"]


@pytest.mark.parametrize("is_async", [False, True])
def test_without_notes_the_steps_say_what_runs_and_what_was_accepted(is_async: bool) -> None:
    """Request a tries two tokens in each step, of which one or none are right; b reads a prompt."""
    requests = {
        "a": Asked(prompt=6, output=6, drafts=((2, 1), (2, 0))),
        "b": Asked(prompt=9, output=1),
    }
    tables = recorded(scheduled(requests, budget=8), computed=True)
    config = {
        "cache_config": {"num_gpu_blocks": 21, "block_size": 4},
        "scheduler_config": {
            "async_scheduling": is_async, "max_num_seqs": 8, "max_num_batched_tokens": 64,
        },
        "speculative_config": {"method": "ngram"},
    }  # fmt: skip
    tables.con.execute("UPDATE run_file SET document = ?", [json.dumps({"engine_config": config})])
    found = tables.execute("""
        SELECT number, running, kv_blocks_used, scheduled_tokens, drafted, accepted
        FROM scheduler_step
        WHERE kv_blocks = 20 AND max_scheduled_tokens = 64 AND max_running = 8
        ORDER BY number
    """)
    accepted = [(None, None), *([(None, None)] * 3 if is_async else [(2, 0), (2, 1), (2, 0)])]
    assert found.fetchall() == [
        (0, 2, 2 + 1, 6 + 2, *accepted[0]),
        (1, 2, 3 + 2, 3 + 5, *accepted[1]),
        (2, 2, 3 + 3, 3 + 2, *accepted[2]),
        (3, 1, 3, 3, *accepted[3]),
        (4, 1, 4, 3, None, None),
    ]


# --- the log ---------------------------------------------------------------------------------

_LOG = """\
INFO 12-31 19:59:58 [model.py:619] Resolved architecture: Qwen3ForCausalLM
\x1b[0;36m(Worker_TP1 pid=7)\x1b[0;0m INFO 12-31 20:00:03 [cuda.py:1] Using X attention backend
host:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
(EngineCore pid=5) WARNING 01-01 05:00:00 [jit_monitor.py:1] JIT compilation during inference: k\xff
"""


@pytest.mark.parametrize("starts", [True, False])
def test_decisions_in_the_log_have_the_time_of_their_zone(starts: bool, tmp_path: Path) -> None:
    """The clock of the log is 4 hours behind UTC, in which the year has ended."""
    start_s = 1_767_225_590  # 2025-12-31 23:59:50 UTC
    run = run_directory(tmp_path / "run")
    document = json.loads((run / "run.json").read_text())
    if starts:
        document["start_unix_ns"] = start_s * 10**9
    (run / "run.json").write_text(json.dumps(document))
    (run / "log.txt").write_bytes(_LOG.encode("latin-1"))
    traceql.load(run, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as opened:
        found = opened.select("SELECT line, unix_ns, process, text FROM log_message").rows()
    times = [(start_s + 13) * 10**9, None, (start_s + 10 + 9 * 3600) * 10**9]
    assert [tuple(row.values()) for row in found] == [
        (2, times[0] if starts else None, "Worker_TP1", "Using X attention backend"),
        (3, None, None, _LOG.splitlines()[2]),
        (4, times[2] if starts else None, "EngineCore",
         "JIT compilation during inference: k\ufffd"),
    ]  # fmt: skip
