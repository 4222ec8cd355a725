"""Causes of scheduling and memory: what has them, what looks like them, what does not show them."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from derived import Tables, database, insert
from planted import PLANTED
from test_collectives import DATA

import traceql
from capture.workload import shared_prompt_pct
from traceql.analysis.diagnosis.catalog import causes
from traceql.sql.definition import Definition, Kind
from traceql.sql.execute import make, make_macros, present
from traceql.sql.registry import definitions

MS = 1_000_000
Row = dict[str, Any]


class Situation:
    """What the tables say of a run on one device, of which causes are asked."""

    def __init__(self, **setting: Any) -> None:
        self.tables: Tables = database()
        con = self.tables.con
        known_tables = definitions()
        for name in present(con):
            one = known_tables[name]
            if one.kind is not Kind.SOURCE:
                con.execute(f"DROP TABLE {one.schema}.{name}")
        self._rows: dict[str, list[Row]] = {
            name: [] for name in ("engine_step", "time_unit", "scheduler_step")
        }
        known = {"has_run_json": True, "has_config": True, "dp": 1, "tp": 1, "config": "{}"}
        self._rows["engine_setting"] = [known | setting]
        self._rows["wording"] = [{"graphs": "CUDA graphs", "device": "GPU"}]
        self._rows["time_scale"] = [{
            "ranks": 1, "devices": 1, "steps": 40, "profiled_ns": 4 * MS, "busy_ns": 2 * MS,
            "lost_ns": 2 * MS, "unprofiled_ns": 3 * MS, "scale": 0.5, "step_ns": 3 * MS,
        }]  # fmt: skip

    def steps(
        self, count: int, phase: str = "decode", *, requests: int = 16, tokens: int | None = None,
        busy: float = 2.0, lost: float = 2.0, attention: float = 0.0, prompt: int = 0,
        rank: int = 0,
    ) -> "Situation":  # fmt: skip
        """Adds like steps; times in ms."""
        for _ in range(count):
            number = len(self._rows["engine_step"])
            processed = requests + prompt if tokens is None else tokens
            times = {"busy_ns": busy * MS, "span_ns": (busy + lost) * MS, "host_lost_ns": lost * MS}
            self._rows["engine_step"].append({
                "step_id": number, "rank": rank, "device": 0, "number": number, "phase": phase,
                "graph_mode": "full", "tokens": processed, "requests": requests,
                "context_tokens": prompt, "generation_requests": requests, "is_edge": False,
            } | times)  # fmt: skip
            common = {"rank": rank, "device": 0, "step_id": number, "root_step_id": number}
            common |= {"number": number, "longest_ts": number, "longest_ns": MS}
            self.unit(common, part="lost", cause="host", is_waiting=False, ns=lost * MS)
            self.unit(common, part="computing", category="attention", ns=attention * MS)
            self.unit(common, part="computing", category="gemm", ns=(busy - attention) * MS)
        return self

    def unit(self, common: Row, **fields: Any) -> None:
        self._rows["time_unit"].append(common | {"unit": len(self._rows["time_unit"])} | fields)

    def scheduled(self, count: int, **fields: Any) -> "Situation":
        """Adds like steps as the scheduler saw them."""
        for _ in range(count):
            number = len(self._rows["scheduler_step"])
            common = {"run": "run", "rank": 0, "number": number, "step_id": number, "ts": number}
            self._rows["scheduler_step"].append(common | {"max_running": 128} | fields)
        return self

    def has(self, table: str, *rows: Row) -> "Situation":
        self._rows.setdefault(table, []).extend(rows)
        return self

    def scale(self, **fields: Any) -> "Situation":
        self._rows["time_scale"][0] |= fields
        return self

    def cause(self, name: str) -> Row:
        """The row of a cause."""
        for table, rows in self._rows.items():
            insert(self.tables, table)
            columns = dict.fromkeys(name for row in rows for name in row)
            given = pa.table({name: [row.get(name) for row in rows] for name in columns})
            if rows:
                self.tables.con.register("given", given)
                self.tables.con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM given")
        self._rows = {}
        cause = causes()[name]
        known, made = definitions(), present(self.tables.con)
        for need in cause.needs:
            self._make(need, known, made)
        found = self.tables.con.sql(cause.select).to_arrow_table().to_pylist()
        assert len(found) == 1
        row: Row = found[0]
        if row["is_confirmed"]:
            assert row["headline"]
            assert row["remedy"]
            assert len(row["headline"].split()) <= 15
        else:
            assert row["reason"]
        return row

    def _make(self, name: str, known: Mapping[str, Definition], made: set[str]) -> None:
        one = known[name]
        if name in made:
            return
        made.add(name)
        if one.kind.is_macro:
            make_macros(self.tables.con, [name])
            return
        for need in one.needs:
            self._make(need, known, made)
        make(self.tables.con, one, f"{one.schema}.{name}")


def claimed_ms(row: Row) -> float:
    return float(sum(claim["ns"] for claim in row["claims"])) / MS


# --- what holds requests back --------------------------------------------------------------------

FULL: Row = {"running": 20, "waiting": 30, "kv_blocks_used": 970, "kv_blocks": 1000, "preempted": 0}
FREE: Row = {"running": 16, "waiting": 0, "kv_blocks_used": 50, "kv_blocks": 1000, "preempted": 0}
LIMITED: Row = FREE | {"running": 16, "waiting": 16, "max_running": 16}


def full(**setting: Any) -> Situation:
    return Situation(**setting).steps(40, requests=20, attention=0.3).scheduled(40, **FULL)


def test_a_full_cache_holds_back_what_waits() -> None:
    """2.5 times the requests; of 3 ms without the profiler, a tenth (attention) grows with them."""
    found = full(gpu_memory_utilization=0.8, kv_cache_dtype="auto").cause("kv_cache_full")
    assert found["is_confirmed"]
    assert found["headline"] == "The KV cache is full: 20 requests run, 30 wait, 128 may run"
    assert found["gain_pct"] == pytest.approx(100 * (2.5 / 1.15 - 1))
    assert found["remedy"].startswith(
        "--gpu-memory-utilization 0.95 (now 0.8), or --kv-cache-dtype fp8"
    )


def test_more_memory_is_not_advised_where_another_setting_overrides_it() -> None:
    found = full(
        gpu_memory_utilization=0.8, kv_cache_bytes=1 << 30, kv_cache_dtype="fp8_e4m3"
    ).cause("kv_cache_full")
    assert found["remedy"] == (
        f"--kv-cache-memory-bytes {5 << 29} (now {1 << 30}; or leave it out)"  # 2.5 times as many
    )
    blocks = '{"cache_config": {"num_gpu_blocks_override": 77}}'
    found = full(config=blocks, kv_cache_bytes=1 << 30).cause("kv_cache_full")
    assert found["remedy"] == "Leave out --num-gpu-blocks-override (now 77)"
    found = full(gpu_memory_utilization=0.95, kv_cache_dtype="fp8").cause("kv_cache_full")
    assert "utilization" not in found["remedy"]


def test_free_blocks_rule_out_a_full_cache() -> None:
    found = Situation().steps(40).scheduled(40, **FREE).cause("kv_cache_full")
    assert found["is_confirmed"] is False
    assert found["reason"] == "requests hold at most 5.0% of the KV cache"


def test_a_full_cache_that_nobody_waits_for_holds_nothing_back() -> None:
    found = Situation().scheduled(40, **FULL | {"waiting": 0}).cause("kv_cache_full")
    assert found["is_confirmed"] is False


@pytest.mark.parametrize("cause", ["kv_cache_full", "preemption", "queueing", "small_batch"])
def test_without_what_the_scheduler_ran_nothing_is_known(cause: str) -> None:
    found = Situation().steps(40).cause(cause)
    assert found["is_confirmed"] is None
    assert "record" in found["reason"]


def test_samples_of_a_server_do_not_say_how_many_may_run() -> None:
    """Its metrics have no max_num_seqs; run.json has it if the server told."""
    sampled = {"max_running": None}
    made = Situation().steps(40).scheduled(40, **FULL | sampled)
    assert made.cause("kv_cache_full")["is_confirmed"] is None
    assert Situation().scheduled(40, **LIMITED | sampled).cause("queueing")["is_confirmed"] is None
    found = Situation().steps(40).scheduled(40, **FREE | sampled).cause("small_batch")
    assert found["headline"] == "Decode steps have 16 requests, and none waits"
    told = Situation(max_num_seqs=16).steps(40).scheduled(40, **LIMITED | sampled)
    assert told.cause("queueing")["is_confirmed"]


def test_what_replicas_were_sent_says_nothing_of_one_replica() -> None:
    """in_flight counts the requests of all replicas."""
    seen = FULL | {"waiting": None, "in_flight": 50}
    assert Situation(dp=1).scheduled(40, **seen).cause("kv_cache_full")["is_confirmed"]
    assert Situation(dp=2).scheduled(40, **seen).cause("kv_cache_full")["is_confirmed"] is None


def test_requests_wait_for_max_num_seqs() -> None:
    """Twice as many want to run; 8,192 tokens are enough for them, and the cache is 5% full."""
    found = (
        Situation(max_num_batched_tokens=8192).steps(40).scheduled(40, **LIMITED).cause("queueing")
    )
    assert found["is_confirmed"]
    assert found["remedy"] == "--max-num-seqs 32"
    assert found["gain_pct"] == pytest.approx(100)  # nothing but weights is read
    assert Situation().scheduled(40, **LIMITED).cause("small_batch")["is_confirmed"] is False


def test_more_requests_than_the_cache_has_room_for_are_not_advised() -> None:
    half = LIMITED | {"kv_blocks_used": 600}  # with a tenth to spare, 24 requests
    found = Situation(max_num_batched_tokens=16).steps(40).scheduled(40, **half).cause("queueing")
    assert found["remedy"] == "--max-num-seqs 24 --max-num-batched-tokens 24"
    found = Situation().scheduled(40, **LIMITED | {"kv_blocks_used": 900}).cause("queueing")
    assert found["is_confirmed"] is False
    assert found["reason"] == "the KV cache has no room for more requests either: 90% are used"


def test_requests_that_wait_for_another_reason_do_not_wait_for_max_num_seqs() -> None:
    found = Situation().scheduled(40, **FULL).cause("queueing")
    assert (found["is_confirmed"], found["reason"]) == (False, "20 requests run at a time, 128 may")


def test_a_request_that_begins_again_lost_its_blocks() -> None:
    """steps.jsonl has no preemptions: b, of which 30 and 1 tokens existed, begins with 10 again."""
    parts = [
        ("a", 0, 20, 0), ("a", 1, 1, 20), ("a", 2, 1, 21),
        ("b", 0, 30, 0), ("b", 1, 1, 30), ("b", 2, 21, 10),
    ]  # fmt: skip
    lines = [
        {"run": "run", "request_id": name, "rank": 0, "step_id": step, "tokens": tokens,
         "computed_tokens": computed}
        for name, step, tokens, computed in parts
    ]  # fmt: skip
    seen = FREE | {"preempted": None, "scheduled_tokens": 25}
    steps = [{"step_id": n, "rank": 0, "number": n} for n in range(3)]
    found = Situation().scheduled(3, **seen).has("request_step", *lines).has("step", *steps)
    row = found.cause("preemption")
    assert row["is_confirmed"]
    assert row["samples"] == 1
    assert row["evidence"][0] == "21 tokens were computed again, 28.0% of all."
    lines = [line for line in lines if line["request_id"] == "a"]
    row = (
        Situation()
        .scheduled(3, **seen)
        .has("request_step", *lines)
        .has("step", *steps)
        .cause("preemption")
    )
    assert row["is_confirmed"] is False


def test_the_scheduler_counts_what_it_preempts() -> None:
    row = Situation().scheduled(40, **FREE | {"preempted": 1}).cause("preemption")
    assert row["is_confirmed"]
    assert row["headline"] == "40 times a request lost its KV blocks and began again"
    assert Situation().scheduled(40, **FREE).cause("preemption")["is_confirmed"] is False
    assert (
        Situation().scheduled(40, **FREE | {"preempted": None}).cause("preemption")["is_confirmed"]
        is None
    )


def test_a_batch_is_small_if_twice_as_many_requests_are_nearly_free() -> None:
    found = Situation().steps(40, attention=0.3).scheduled(40, **FREE).cause("small_batch")
    assert found["is_confirmed"]
    assert found["evidence"][1].startswith(
        "Twice the requests would give 82% more tokens"
    )  # 2 / 1.1
    assert "--max-concurrency 32 (" in found["remedy"]
    limited = FREE | {"max_running": 16}
    found = Situation().steps(40).scheduled(40, **limited).cause("small_batch")
    assert "--max-num-seqs 32" in found["remedy"]


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (FREE | {"waiting": 9}, {}),  # more were sent
        (FREE | {"kv_blocks_used": 950}, {}),
        (FREE, {"requests": 256}),  # computing takes as long as reading
        (FREE, {"attention": 2.0, "lost": 0.0}),  # all of the step grows
    ],
)
def test_more_requests_are_not_asked_for_where_they_would_not_help(seen: Row, step: Row) -> None:
    found = Situation().steps(40, **step).scheduled(40, **seen).cause("small_batch")
    assert found["is_confirmed"] is False


@pytest.mark.parametrize(
    "cause",
    [
        "dp_sync", "kv_cache_full", "kv_transfer_wait", "preemption", "prefill_blocks_decode",
        "prefix_cache_off", "queueing", "small_batch", "small_prefill_chunks",
        "speculation_rejected",
    ],
)  # fmt: skip
def test_training_schedules_no_requests(cause: str) -> None:
    found = Situation(has_config=False, dp=2)
    found.has("layout", *({"rank": n, "dp_rank": n, "dp_size": 2} for n in range(2)))
    found.has("engine_step", *({"number": n, "source": "ProfilerStep"} for n in range(20)))
    assert found.has("communicator").has("step").cause(cause)["is_confirmed"] is False


# --- prompts -------------------------------------------------------------------------------------


def chunked(
    *, chunks: int = 16, lost: float = 14.0, tokens: int = 256, **setting: Any
) -> Situation:
    """Prompts of 4,096 tokens in steps of 256, which take 16 ms for 2 ms of work."""
    made = Situation(max_num_batched_tokens=tokens, **setting).scale(scale=None)
    made.steps(chunks, "mixed", requests=0, prompt=tokens, busy=2.0, lost=lost).steps(10)
    parts = [
        {"run": "run", "request_id": "a", "rank": 0, "step_id": n, "tokens": tokens,
         "computed_tokens": n * tokens}
        for n in range(chunks)
    ]  # fmt: skip
    asked = {"run": "run", "request_id": "a", "profiled": True, "prompt_tokens": chunks * tokens}
    return made.has("request_step", *parts).has("request", asked)


def test_small_chunks_cost_a_launch_of_the_model_each() -> None:
    """One step of 8,192 tokens is enough: 15 of 16 chunks of 14 ms are not lost."""
    found = chunked().cause("small_prefill_chunks")
    assert found["is_confirmed"]
    assert (
        found["headline"] == "Prompts take 16 steps of 256 tokens; the GPU works 12% of their time"
    )
    assert claimed_ms(found) == pytest.approx(15 * 14)
    assert found["remedy"] == "--max-num-batched-tokens 8192"
    found = chunked(long_prefill_threshold=128).cause("small_prefill_chunks")
    assert found["remedy"].endswith("--long-prefill-token-threshold 0")


@pytest.mark.parametrize(
    "run", [{"lost": 1.0}, {"tokens": 8192}, {"chunks": 2}], ids=["busy", "large", "two of them"]
)
def test_chunks_that_are_busy_large_or_few_are_right(run: Row) -> None:
    assert chunked(**run).cause("small_prefill_chunks")["is_confirmed"] is False


def test_a_trace_alone_does_not_say_how_large_steps_may_be() -> None:
    made = Situation(has_config=False).steps(16, "prefill", requests=0, prompt=256, lost=14.0)
    assert made.cause("small_prefill_chunks")["is_confirmed"] is None


def delayed(*, mixed: int = 20, lost: float = 1.0, itl_ms: int = 30, **setting: Any) -> Situation:
    """Half of the steps have 2,000 prompt tokens and take 29 ms of work, others 2 ms."""
    made = Situation(max_num_batched_tokens=2048, max_num_seqs=128, **setting).scale(scale=1.0)
    made.steps(mixed, "mixed", prompt=2000, busy=29.0, lost=lost).steps(20, lost=1.0)
    intervals = [3 * MS] * 95 + [itl_ms * MS] * 5
    return made.has("request", {"run": "run", "profiled": False, "itl_ns": intervals})


def test_prompts_delay_tokens_of_other_requests() -> None:
    """27 ms for 2,000 tokens: two decode steps of 3 ms more are 444 tokens, 384 in steps of 128."""
    found = delayed().cause("prefill_blocks_decode")
    assert found["is_confirmed"]
    assert found["headline"].startswith("Steps with prompts take 30.0 ms instead of 3.0")
    assert found["remedy"].startswith("--max-num-batched-tokens 384 (now 2048)")
    assert (found.get("gain_pct"), found.get("claims")) == (None, None)


@pytest.mark.parametrize(
    ("run", "state"),
    [
        ({"lost": 60.0}, False),  # launches make it long: smaller chunks would add some
        ({"itl_ms": 5}, False),
        ({"mixed": 0}, False),
        ({"mixed": 7}, None),
    ],
)
def test_steps_that_are_launched_slowly_or_hurt_nobody_are_not_split(
    run: Row, state: bool | None
) -> None:
    assert delayed(**run).cause("prefill_blocks_decode")["is_confirmed"] is state


def test_latencies_that_were_not_measured_are_unknown() -> None:
    made = Situation().scale(scale=1.0).steps(20, "mixed", prompt=2000, busy=29.0).steps(20)
    assert made.cause("prefill_blocks_decode")["is_confirmed"] is None


def prompts(document: str, **setting: Any) -> Situation:
    """Ten steps with prompts that take 8 ms more than a decode step."""
    made = Situation(**setting).steps(10, "mixed", prompt=900, busy=10.0).steps(20, busy=2.0)
    return made.has("run", {"run": "run", "document": document})


def test_shared_beginnings_are_computed_again_without_the_prefix_cache() -> None:
    found = prompts('{"workload": {"seed": null, "shared_prompt_pct": 75.0}}', prefix_caching=False)
    row = found.cause("prefix_cache_off")
    assert row["is_confirmed"]
    assert row["evidence"][1].endswith("; {saving} of an average step would not be computed again.")
    assert claimed_ms(row) == pytest.approx(10 * 8 * 0.75, rel=1e-5)


@pytest.mark.parametrize(
    ("workload", "is_on", "state"),
    [
        ('{"seed": null, "shared_prompt_pct": 75.0}', True, False),
        ('{"seed": null, "shared_prompt_pct": 1.0}', False, False),
        ('{"seed": 0}', False, False),  # random tokens
        ('{"seed": null}', False, None),
        ('{"seed": null, "shared_prompt_pct": 75.0}', None, None),
    ],
)
def test_a_prefix_cache_helps_prompts_that_begin_alike(
    workload: str, is_on: bool | None, state: bool | None
) -> None:
    made = prompts(f'{{"workload": {workload}}}', prefix_caching=is_on)
    assert made.cause("prefix_cache_off")["is_confirmed"] is state


def test_prompts_share_what_a_tree_of_them_has_once() -> None:
    """The tree of 1 2 3, 1 2 4 and 1 2 3 5 has 5 of 10 tokens; texts count by letters."""
    assert shared_prompt_pct([[1, 2, 3], [9], [1, 2, 4], [1, 2, 3, 5]]) == pytest.approx(500 / 11)
    assert shared_prompt_pct(["ab", "ac", [1, 2]]) == pytest.approx(100 / 6)
    assert shared_prompt_pct([]) == 0


# --- speculation ---------------------------------------------------------------------------------

NGRAM: Row = {"speculation": "ngram", "drafted_tokens": 4}


def speculating(
    accepted: int, *, plain: float | None = None, steps: int = 40, **setting: Any
) -> Situation:
    """16 requests with 4 drafts each, in 4 ms; `plain` is the time of steps without drafts, ms."""
    made = Situation(**NGRAM | setting).scale(scale=1.0).steps(steps, tokens=80, busy=2.0, lost=2.0)
    if plain is not None:
        made.steps(steps, busy=plain - 1, lost=1.0)
    return made.scheduled(steps, running=16, drafted=64, accepted=accepted)


def test_rejected_drafts_that_cost_more_than_they_give() -> None:
    """8 of 64 accepted are 0.5 a request: 1.5 tokens in 4 ms, against one in 2.4 ms."""
    found = speculating(8, plain=2.4).cause("speculation_rejected")
    assert found["is_confirmed"]
    assert found["headline"] == "Of 2,560 drafted tokens, 12% are accepted: 0.50 a request and step"
    assert found["gain_pct"] == pytest.approx(100 * (4 / (1.5 * 2.4) - 1))
    assert '"num_speculative_tokens": 1 in it (now 4)' in found["remedy"]


def test_drafts_that_pay_are_not_called_rejected() -> None:
    found = speculating(8, plain=3.0).cause("speculation_rejected")  # 1.5 in 4 ms, 1.33 without
    assert found["is_confirmed"] is False
    found = speculating(64).cause("speculation_rejected")
    assert found["reason"] == "2,560 of 2,560 drafted tokens were accepted (100%)"


def test_without_steps_to_compare_with_only_extremes_are_judged() -> None:
    found = speculating(1).cause("speculation_rejected")  # 0.06 a request cannot pay for drafting
    assert (found["is_confirmed"], found["gain_pct"], found["is_notable"]) == (True, None, True)
    assert speculating(16).cause("speculation_rejected")["is_confirmed"] is None
    assert speculating(1, steps=5).cause("speculation_rejected")["is_confirmed"] is None


def test_nothing_is_said_of_drafts_whose_fate_is_unknown() -> None:
    made = Situation(**NGRAM).steps(40, tokens=80).scheduled(40, running=16)
    assert made.cause("speculation_rejected")["is_confirmed"] is None
    made = Situation().steps(40).scheduled(40, running=16)
    assert made.cause("speculation_rejected")["reason"] == "run.json has no speculative_config"
    made = Situation(has_config=False).steps(40)
    assert made.cause("speculation_rejected")["reason"] == "decode steps have one token a request"
    made = Situation(has_config=False).steps(40, tokens=80)
    assert made.cause("speculation_rejected")["is_confirmed"] is None


# --- replicas, transfers and adapters ------------------------------------------------------------


def replicas(late_tokens: int, *, steps: int = 20, loaded: int = 2, **setting: Any) -> Situation:
    """In each step, replica 0 with 8 tokens waits 1 ms for replica 1."""
    made = Situation(**{"dp": 2} | setting).scale(devices=2, steps=steps, step_ns=4 * MS)
    made.steps(steps, requests=8, lost=0.0).steps(steps, requests=late_tokens, lost=0.0, rank=1)
    for n in range(steps):
        waiting = {
            "step_id": n,
            "root_step_id": steps + n,
            "number": n,
            "rank": 0,
            "communicator_id": 5,
        }
        made.unit(waiting, part="lost", is_waiting=True, cause="kernel", ns=MS, longest_ns=MS)
    layout = [{"rank": n, "dp_rank": n, "dp_size": 2} for n in range(loaded)]
    return (
        made.has("layout", *layout)
        .has("communicator", {"communicator_id": 5, "scope": "data"})
        .has("step")
    )


def test_replicas_wait_for_the_one_with_more_tokens() -> None:
    found = replicas(64).cause("dp_sync")
    assert found["is_confirmed"]
    assert claimed_ms(found) == pytest.approx(20)
    assert found["evidence"][:2] == [
        "Those that wait have 8 tokens in the step, the one they wait for 64.",
        "In all, replica 1 processes 1,280 tokens, replica 0 160.",
    ]
    assert "--data-parallel-size 1 --tensor-parallel-size 2" in found["remedy"]
    outside = '{"parallel_config": {"data_parallel_external_lb": true}}'
    assert (
        "no --data-parallel-external-lb" in replicas(64, config=outside).cause("dp_sync")["remedy"]
    )


@pytest.mark.parametrize(
    ("made", "state"),
    [
        (lambda: replicas(8), False),  # as many tokens: it is late for another reason
        (lambda: replicas(64, steps=2), None),
        (lambda: replicas(64, loaded=1), None),
        (
            lambda: Situation().steps(20).has("layout", {"rank": 0, "dp_rank": 0, "dp_size": 1}),
            False,
        ),
    ],
    ids=["like steps", "two steps", "one replica loaded", "one replica"],
)
def test_waiting_is_not_blamed_on_tokens_without_a_difference(
    made: Any, state: bool | None
) -> None:
    situation = made().has("communicator").has("step")
    assert situation.cause("dp_sync")["is_confirmed"] is state


CONNECTOR = '{"kv_transfer_config": {"kv_connector": "NixlConnector"}}'


def transferring(name: str, config: str = CONNECTOR, cat: str = "python_function") -> Situation:
    """In each of 40 steps, a GPU is idle for 2 ms, of which 0.5 lie in a call of that name."""
    made = Situation(config=config).steps(40)
    idle = [
        {"rank": 0, "device": 0, "step_id": n, "part": "idle", "cause": "host", "ts": 10 * n * MS,
         "dur": 2 * MS}
        for n in range(40)
    ]  # fmt: skip
    calls = [
        {"id": n, "rank": 0, "name": name, "cat": cat, "ts": int((10 * n - 0.5) * MS), "dur": MS}
        for n in range(40)
    ]
    return made.has("lost_interval", *idle).has("slice", *calls)


def test_steps_wait_in_the_connector() -> None:
    found = transferring("vllm/connector.py: wait_for_layer_load").cause("kv_transfer_wait")
    assert found["is_confirmed"]
    assert claimed_ms(found) == pytest.approx(40 * 2 / 4)
    assert "NixlConnector" in found["evidence"][0]


@pytest.mark.parametrize(
    ("name", "config", "cat", "state"),
    [
        ("forward", CONNECTOR, "python_function", False),
        ("aten::add", CONNECTOR, "cpu_op", None),  # without stacks, the calls are not in the trace
        ("wait_for_layer_load", "{}", "python_function", False),  # the mixin without a connector
    ],
)
def test_without_a_connector_or_its_calls_nothing_waits_for_it(
    name: str, config: str, cat: str, state: bool | None
) -> None:
    assert transferring(name, config, cat).cause("kv_transfer_wait")["is_confirmed"] is state


def test_kernels_of_adapters_are_what_they_cost() -> None:
    made = Situation(config='{"lora_config": {"max_loras": 8}}').steps(40)
    for n in range(40):
        common = {"step_id": n, "number": n, "rank": 0, "longest_ns": MS, "part": "computing"}
        made.unit(common, symbol="_lora_shrink_kernel", ns=0.1 * MS)
        made.unit(common, symbol="_lora_expand_kernel", ns=0.1 * MS)
    found = made.cause("lora_overhead")
    assert found["is_confirmed"]
    assert claimed_ms(found) == pytest.approx(8)
    assert found["evidence"][0].startswith("_lora_expand_kernel, _lora_shrink_kernel take 10.0% of")
    assert found["evidence"][1] == "run.json has max_loras 8."
    assert Situation().steps(40).cause("lora_overhead")["is_confirmed"] is False


# --- recordings, altered -------------------------------------------------------------------------


def altered(name: str, folder: Path) -> Path:
    """A copy of a planted recording that can be written."""
    copied = folder / name
    shutil.copytree(PLANTED / name, copied, copy_function=shutil.copyfile)
    return copied


def diagnosed(run: Path) -> dict[str, Row]:
    database_path = traceql.load(run, run.with_suffix(".duckdb")).database
    with traceql.open(database_path) as opened:
        return {row["cause"]: row for row in opened.query("overview.causes").rows()}


@pytest.mark.slow
def test_requests_of_a_recording_advance_by_all_that_was_drafted(tmp_path: Path) -> None:
    """steps.jsonl, which has 10 steps without prompts: 104 tokens more than one a request."""
    run = Path(shutil.copytree(DATA / "speculation", tmp_path / "run"))
    found = diagnosed(run)["speculation_rejected"]
    assert found["reason"] == "104 of 104 drafted tokens were accepted (100%)"


@pytest.mark.slow
@pytest.mark.skipif(not PLANTED.exists(), reason="needs ../shared/planted")
def test_a_run_with_a_full_cache_is_told_to_make_it_larger(tmp_path: Path) -> None:
    """The healthy run, as if its scheduler had noted a full cache and as many requests again."""
    run = altered("base", tmp_path)
    document = json.loads((run / "run.json").read_text())
    document["engine_config"]["cache_config"]["kv_cache_memory_bytes"] = 1 << 30
    (run / "run.json").write_text(json.dumps(document))
    noted = {"running": 16, "waiting": 16, "kv_blocks_used": 95, "kv_blocks": 100, "preempted": 0}
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    lines = [
        {"rank": 0, "number": step["number"], "unix_ns": step["begin_unix_ns"], "max_running": 128}
        | {"scheduled_tokens": 16, "max_scheduled_tokens": 2048} | noted
        for step in steps
    ]  # fmt: skip
    (run / "scheduler.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = diagnosed(run)
    assert found["kv_cache_full"]["state"] == "confirmed"
    assert {found[name]["state"] for name in ("queueing", "small_batch", "preemption")} == {
        "ruled out"
    }


@pytest.mark.slow
@pytest.mark.skipif(not PLANTED.exists(), reason="needs ../shared/planted")
@pytest.mark.parametrize(("is_accepted", "state"), [(True, "ruled out"), (False, "confirmed")])
def test_drafts_are_judged_by_how_far_requests_advance(
    tmp_path: Path, is_accepted: bool, state: str
) -> None:
    """All drafts of the recording were accepted; else each request advances by one token a step."""
    run = altered("ngram", tmp_path)
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    first: dict[str, int] = {}
    for number, step in enumerate(steps):
        for name, computed in step["computed"].items():
            first.setdefault(name, computed)
            if not is_accepted:
                step["computed"][name] = first[name] + number
    (run / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    assert diagnosed(run)["speculation_rejected"]["state"] == state
