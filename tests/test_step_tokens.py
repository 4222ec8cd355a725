"""Tokens and KV lengths of steps, against sums over the tokens of a simulated scheduler."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from derived import Tables, database, rows
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scheduler import Asked, Iteration, Run, recorded, scheduled
from traces import host, kernel, launch, step

pytestmark = pytest.mark.slow

LENGTHS = """
    SELECT context_pairs, generation_pairs, context_kv_tokens, generation_kv_tokens, kv_source
    FROM step_tokens ORDER BY step_id
"""
UNKNOWN = (None,) * 5


def brute_force(parts: Iteration, source: str) -> tuple[Any, ...]:
    kinds = [[p for p in parts.values() if p.is_context is wanted] for wanted in (True, False)]
    return (
        *(sum(part.pairs for part in kind) for kind in kinds),
        *(sum(part.kv_tokens for part in kind) for kind in kinds),
        source,
    )


def ledger(tables: Tables) -> list[tuple[Any, ...]]:
    return list(rows(tables, "SELECT value, total, ok FROM ledger WHERE check_name = 'KV lengths'"))


# Chunks of a long prompt, a prompt that the prefix cache has a part of, and one that comes later.
MIXED = {
    "a": Asked(prompt=45, output=6),
    "b": Asked(prompt=40, output=4, cached=16),
    "c": Asked(prompt=7, output=9, arrives=3),
}
DRAFTED = {
    "a": Asked(prompt=30, output=20, drafts=((3, 0), (3, 3), (3, 1), (0, 0))),
    "b": Asked(prompt=5, output=20, drafts=((3, 2),)),
}


@pytest.mark.parametrize("source", ["annotation", "steps.jsonl"])
@pytest.mark.parametrize(
    ("requests", "prompts"),
    [(MIXED, True), (MIXED, False), (DRAFTED, True)],
    ids=["prompts of ids", "prompts of text", "speculation"],
)
def test_pairs_are_those_of_each_token_with_those_before_it(
    requests: dict[str, Asked], prompts: bool, source: str
) -> None:
    run = scheduled(requests, budget=32)
    tables = recorded(
        run,
        detailed=source == "annotation",
        computed=source == "steps.jsonl",
        prompts=prompts,
    )
    assert rows(tables, LENGTHS) == [brute_force(parts, source) for parts in run.iterations]


def test_the_annotation_wins_and_steps_that_differ_are_in_the_ledger() -> None:
    run = scheduled({"a": Asked(prompt=9, output=1)}, budget=32)
    tables = recorded(run, detailed=True, computed=True)
    tables.con.execute("UPDATE run_iteration SET computed = MAP {'a': 1}")
    assert rows(tables, LENGTHS) == [brute_force(run.iterations[0], "annotation")]
    assert ledger(tables) == [(0, 1, False)]


def test_rows_that_kernels_run_include_the_padding_of_graphs() -> None:
    con = database(
        step(ts=0, dur=9, context=(1, 5), generation=(2, 6)),
        launch(ts=1, correlation=1),
        launch(ts=2, correlation=2),
        launch(ts=3, correlation=3),
        kernel("void vllm::reshape_and_cache_flash_kernel<bf16>", ts=2, dur=1, correlation=1,
               grid=[16, 1, 1]),
        kernel("void vllm::concat_and_cache_mla_kernel<bf16>", ts=4, dur=1, correlation=2,
               grid=[12, 1, 1]),
        kernel("nvjet_sm90_gemm", ts=6, dur=1, correlation=3, grid=[132, 1, 1]),
        step(ts=20, dur=9, generation=(3, 3)),
        step(ts=40, dur=9),
        host("ProfilerStep#1", ts=60, dur=9, cat="user_annotation"),
    )  # fmt: skip
    found = rows(
        con,
        "SELECT rank, step_id, context_requests, context_tokens, generation_requests, "
        "generation_tokens, tokens, executed_tokens, logit_rows FROM step_tokens",
    )
    assert found == [
        (0, 0, 1, 5, 2, 6, 11, 16, 7),
        (0, 1, 0, 0, 3, 3, 3, None, 3),
        (0, 2, 0, 0, 0, 0, 0, None, 0),
    ]
    # A step without requests has no keys and values; of the others, nothing is known.
    assert rows(con, LENGTHS) == [UNKNOWN, UNKNOWN, (0, 0, 0, 0, "annotation")]


@pytest.mark.parametrize(
    "name",
    [
        "execute_9_context_1(sq9sk8sqsq81sqsk81)_generation_0(sq0sk0sqsq0sqsk0)",  # sk below sq
        "execute_9_context_1(sq9sk9sqsq81sqsk99999999999999999999)_generation_0(sq0sk0sqsq0sqsk0)",
        "execute_9_context_1(sq9sk9sqsq81sqsk81)_generation_1(1)",
    ],
)
def test_an_odd_annotation_gives_no_lengths(name: str) -> None:
    con = database(host(name, ts=0, dur=9, cat="user_annotation"))
    assert rows(con, LENGTHS) == [UNKNOWN]
    assert rows(con, "SELECT context_tokens FROM step_tokens") == [(9,)]


@pytest.mark.parametrize(
    "change",
    [
        "computed = MAP {'a': 4}",
        "requests = MAP {'a': 1, 'b': 2}",
        "requests = MAP {'a': 1, 'b': 1, 'c': 1}, computed = MAP {'a': 4, 'b': 4, 'c': 8}",
    ],
    ids=["a length is missing", "other tokens", "a request too many"],
)
def test_a_step_of_which_a_part_is_unknown_or_does_not_fit_has_no_lengths(change: str) -> None:
    run = scheduled({"a": Asked(prompt=4, output=2), "b": Asked(prompt=4, output=2)}, budget=9)
    tables = recorded(run, computed=True, prompts=False)
    tables.con.execute(f"UPDATE run_iteration SET {change} WHERE number = 1")
    assert rows(tables, LENGTHS) == [brute_force(run.iterations[0], "steps.jsonl"), UNKNOWN]


def test_requests_with_as_many_tokens_are_ambiguous_without_their_prompts() -> None:
    """One has a prompt of one token, the other generates one: which is which is not known."""
    requests = {"a": Asked(prompt=3, output=3), "b": Asked(prompt=1, output=1, arrives=1)}
    run = scheduled(requests, budget=9)
    known = [brute_force(parts, "steps.jsonl") for parts in run.iterations]
    assert rows(recorded(run, computed=True), LENGTHS) == known
    assert rows(recorded(run, computed=True, prompts=False), LENGTHS) == [
        known[0], UNKNOWN, known[2],
    ]  # fmt: skip


# --- numbers that cannot be ----------------------------------------------------------------------


def possible(tables: Tables) -> list[tuple[Any, ...]]:
    of_file = "SELECT value, total, ok FROM ledger WHERE check_name = 'computed tokens'"
    return list(rows(tables, of_file))


@pytest.mark.parametrize(
    ("number", "tokens", "unknown"), [(2, 9, {1, 2, 3}), (0, 1, {0, 1}), (4, 10**9, {3, 4})]
)
def test_computed_tokens_that_contradict_the_iteration_beside_are_unknown(
    number: int, tokens: int, unknown: set[int]
) -> None:
    run = scheduled({"a": Asked(prompt=9, output=5)}, budget=9)
    tables = recorded(run, computed=True)
    tables.con.execute(
        "UPDATE run_iteration SET computed = MAP {'a': $tokens} WHERE number = $number",
        {"tokens": tokens, "number": number},
    )
    assert rows(tables, LENGTHS) == [
        UNKNOWN if n in unknown else brute_force(parts, "steps.jsonl")
        for n, parts in enumerate(run.iterations)
    ]
    assert possible(tables) == [(5 - len(unknown), 5, False)]


def test_a_request_cannot_outgrow_its_end_or_the_engine() -> None:
    run = scheduled({"a": Asked(prompt=4, output=6)}, budget=9)
    window = run.iterations[5:]  # a single iteration, which has 8 tokens behind it
    ended = {"request_id": "a", "prompt_tokens": 4, "output_tokens": 3, "finished": True}
    metrics = json.dumps({"passes": {"profiled": {"requests": [ended]}}})
    limited = json.dumps({"engine_arguments": {"max_model_len": 8}})
    for change in ({"metrics": metrics}, {"document": limited}):
        tables = recorded(run, skip=5, computed=True)
        assert rows(tables, LENGTHS) == [brute_force(window[0], "steps.jsonl")]
        tables = recorded(run, skip=5, computed=True)
        for column, text in change.items():
            tables.con.execute(f"UPDATE run_file SET {column} = ?", [text])
        assert rows(tables, LENGTHS) == [UNKNOWN]
        assert possible(tables) == [(0, 1, False)]


# --- files without computed tokens ---------------------------------------------------------------

COMPUTED = """
    SELECT step.number, request_id, computed_tokens
    FROM request_step JOIN step USING (rank, step_id) ORDER BY ALL
"""


def computed(run: Run, skip: int, *, of: Sequence[str]) -> list[tuple[int, str, int | None]]:
    return [
        (number, name, part.computed if name in of else None)
        for number, parts in enumerate(run.iterations[skip:])
        for name, part in sorted(parts.items())
    ]


def test_lengths_of_requests_that_begin_in_the_window_are_counted() -> None:
    run = scheduled(MIXED, budget=32)
    # b is unknown, because the prefix cache had a part of its prompt.
    assert rows(recorded(run), COMPUTED) == computed(run, 0, of="ac")
    # The window begins when a has a chunk behind it.
    assert rows(recorded(run, skip=1), COMPUTED) == computed(run, 1, of="c")
    assert rows(recorded(run, prompts=False), COMPUTED) == computed(run, 0, of="")


_REQUEST = st.builds(
    lambda prompt, cached, **more: Asked(prompt, cached=min(cached, prompt - 1), **more),
    prompt=st.integers(1, 30),
    cached=st.sampled_from([0, 0, 8, 16]),
    output=st.integers(1, 12),
    arrives=st.integers(0, 6),
    drafts=st.sampled_from([((0, 0),), ((0, 0),), ((2, 1), (2, 0)), ((3, 3),)]),
    restarts=st.sampled_from([None, None, 0, 3]),
)


# The window may begin where it starts again, with as many tokens to process as its prompt has.
_STARTS_AGAIN = Asked(prompt=20, output=20, cached=8, restarts=7)
# The prompt has 17 tokens, and so have the chunks and drafts that the window shows of it.
_DRAFTS_LIKE_A_PROMPT = Asked(prompt=17, output=8, arrives=4, drafts=((2, 1), (2, 0)))


@example(requests=[_STARTS_AGAIN], budget=40, skip=8)
@example(requests=[*[Asked(prompt=1, output=1)] * 3, _DRAFTS_LIKE_A_PROMPT], budget=15, skip=5)
@settings(max_examples=30, deadline=None)
@given(
    requests=st.lists(_REQUEST, min_size=1, max_size=4),
    budget=st.integers(4, 40),
    skip=st.integers(0, 8),
)
def test_no_length_is_counted_wrong(requests: list[Asked], budget: int, skip: int) -> None:
    run = scheduled({f"r{n}": one for n, one in enumerate(requests)}, budget=budget)
    true = {row[:2]: row[2] for row in computed(run, skip, of=list(run.requests))}
    found = rows(recorded(run, skip=skip), COMPUTED)
    assert [row for row in found if row[2] not in (None, true[row[:2]])] == []


# Four iterations, 5 ms apart on the host, in which one request generates its tokens 9 to 12. The
# engine notes an iteration 0.05 ms before vLLM annotates it.
BASE_NS = 1_790_857_026_000_000_000
BEGUN_US = (20_000, 25_000, 30_000, 35_000)
NOTED_US = [ts - 50 for ts in BEGUN_US]
HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("noted_us", "base_ns", "known"),
    [
        (NOTED_US, BASE_NS, (True, True, True, True)),
        ([ts + 5000 for ts in NOTED_US], BASE_NS, (False, False, False, False)),
        ([*NOTED_US[:3], None], BASE_NS, (True, True, True, False)),
        ([*NOTED_US[:2], NOTED_US[1], NOTED_US[3]], BASE_NS, (True, True, False, True)),
        # Waits for an earlier pipeline stage before it begins.
        ([*NOTED_US[:2], 25_900, NOTED_US[3]], BASE_NS, (True, True, True, True)),
        # Times since the machine was started.
        ([ts + HOUR_US for ts in NOTED_US], HOUR_US * 1000, (True, True, True, True)),
    ],
    ids=["its own", "of the next one", "no time", "twice", "waited", "no Unix time"],
)
def test_a_line_is_of_the_step_before_which_it_was_noted(
    noted_us: Sequence[int | None], base_ns: int, known: Sequence[bool]
) -> None:
    tables = database(*(step(ts=ts, dur=4000, generation=(1, 1)) for ts in BEGUN_US))
    tables.con.execute("UPDATE trace SET base_time_ns = ?", [base_ns])
    for number, noted in enumerate(noted_us):
        unix_ns = None if noted is None else base_ns + noted * 1000
        tables.con.execute(
            "INSERT INTO run_iteration VALUES ('run', 0, ?, ?, MAP {'a': 1}, MAP {'a': ?})",
            [number, unix_ns, 8 + number],
        )
    lengths = [n for (n,) in rows(tables, "SELECT generation_kv_tokens FROM step_tokens")]
    assert lengths == [9 + n if is_known else None for n, is_known in enumerate(known)]
    check = "SELECT value, total, ok FROM ledger WHERE check_name = 'times of iterations'"
    assert rows(tables, check) == ([] if all(known) else [(sum(known), 4, False)])
