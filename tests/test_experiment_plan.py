"""Plans of experiments: what they mean, and what is said of those that are wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from command_line import called
from experiment_runs import use_stand_in

from capture.environment import InstalledVllm
from capture.errors import PlanInvalid
from capture.experiment import runner
from capture.experiment.plan import Plan, plan_schema
from capture.experiment.plan_document import Override, parse_set, parse_sweep, presets, read_plan
from capture.experiment.points import PROFILED, Feasibility, blocks, points_of, read_model_config
from capture.models import built_in_config
from traceql.cli.command_tree import weight_bytes

MODEL = [Override(("model",), "qwen3-8b", "--model")]


def plan_of(text: str, tmp_path: Path) -> Plan:
    (tmp_path / "plan.yaml").write_text(text)
    return read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model: x\ngrid:\n  batch: [1, a]\n", "line 3: grid.batch[1]: expected int, got str"),
        ("model: x\ngrid:\n  batchs: 1\n", "line 3: there is no key 'grid.batchs'; did you mean"),
        ("model: x\nbatch: 1\n", "line 2: there is no key 'batch'; it belongs under grid:"),
        ("model: x\nmodel: y\n", "line 2: 'model' is already set in line 1"),
        ("model: x\nrepeats: 0\n", "line 2: repeats: expected int >= 1"),
        ("model: x\nstart_timeout_s: .nan\n", "line 2: start_timeout_s: expected float"),
        (
            f"model: x\ngrid: {{batch: {[*range(1, 301)]}, prompt_tokens: {[*range(1, 301)]}}}\n",
            "line 2: the grid has 90,000 points; at most 10,000 can be run",
        ),
        ("model: x\ngrid:\n  batch: 1\n  engine: [{port: 1}]\n", "line 4: engine.port is set by p"),
        ("model: [\n", "line 2: expected the node content"),
        ("- a\n", "a plan is a mapping that begins with model: NAME"),
        ("repeats: 3\n", "the plan has no 'model'; add it, or use --model NAME"),
        ("model: !!python/name:os.system x\n", "line 1: could not determine a constructor"),
        ("# model: x\n", "plan.yaml is empty; begin it with model: NAME"),
    ],
)
def test_a_mistake_is_one_line_that_names_its_place(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(PlanInvalid) as error:
        plan_of(text, tmp_path)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_every_key_can_be_overridden_and_the_option_is_named_if_it_is_wrong() -> None:
    given = [*MODEL, parse_set("engine.max_model_len=4096"), parse_set("grid.output_tokens=[8]")]
    plan = read_plan(None, preset="quick", overrides=given)
    assert (plan.engine, plan.grid.output_tokens) == ({"max_model_len": 4096}, [8])
    with pytest.raises(PlanInvalid, match=r"--set repeats=x: repeats: expected int, got str"):
        read_plan(None, preset="quick", overrides=[*MODEL, parse_set("repeats=x")])
    with pytest.raises(PlanInvalid, match="write it as KEY=VALUE"):
        parse_set("repeats")


def test_a_sweep_replaces_values_of_the_grid() -> None:
    sweep = parse_sweep("concurrency:1,4 ; prompt_tokens: 128,1024")
    plan = read_plan(None, preset="quick", overrides=[*MODEL, *sweep])
    assert (plan.grid.concurrency, plan.grid.prompt_tokens) == ([1, 4], [128, 1024])
    assert plan.grid.batch is None  # of the preset: a grid has one of the two
    for text, told in (("batchs:1", "did you mean 'batch'"), ("batch", "KEY:VALUE,VALUE")):
        with pytest.raises(PlanInvalid, match=told):
            parse_sweep(text)
    with pytest.raises(PlanInvalid, match="--sweep batch:4: --sweep batch:1 has 'batch' already"):
        parse_sweep("batch:1", "batch:4")


@pytest.mark.parametrize("name", ["quick", "comprehensive", "scaling"])
def test_presets_need_nothing_but_a_model(name: str) -> None:
    assert name in presets()
    plan = read_plan(None, preset=name, overrides=MODEL)
    assert points_of(plan, lambda _point: None).run
    assert plan.gates == (name != "quick")
    assert plan.repeats == (3 if name == "quick" else 5)


def test_the_schema_accepts_what_the_program_reads_and_refuses_what_it_refuses() -> None:
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for name, part in schema["$defs"].items():
        without = [key for key, one in part["properties"].items() if not one.get("description")]
        assert not without, name
    good = yaml.safe_load("model: x\ngrid: {batch: [1, 2], request_rate: inf}\n")
    jsonschema.validate(good, schema)
    msgspec.convert(good, Plan)
    for text in ("grid: {}", "{model: x, repeats: 0}", "{model: x, grid: {bach: 1}}"):
        bad = yaml.safe_load(text)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(bad, Plan)


def test_a_point_is_every_combination_once_with_the_requests_of_its_load(tmp_path: Path) -> None:
    text = "model: x\ngrid: {tensor_parallel: [1, 2], batch: [1, 4, 4], prompt_tokens: [64, 128]}\n"
    found = points_of(plan_of(text, tmp_path), lambda _point: None).run
    assert len(found) == 2 * 2 * 2
    assert len({point.path for point in found}) == 8
    assert {point.requests for point in found} == {1, 4}  # a batch is sent once
    for load, requests in (("concurrency: 8", 32), ("request_rate: 4", 120)):
        plan = plan_of(f"model: x\ngrid: {{{load}}}\n", tmp_path)
        assert [p.requests for p in points_of(plan, lambda _point: None).run] == [requests]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model: x\n", "the grid sets no load"),
        ("model: x\ngrid: {batch: 1, request_rate: 2}\n", "a batch is sent at once"),
        ("model: x\nbench: latency\ngrid: {concurrency: 1}\n", "bench latency measures batches"),
        (
            "model: x\ngrid: {batch: 64}\nengine: {max_num_seqs: 8}\n",
            "max_num_seqs is 8, so that a batch of 64 does not run at once",
        ),
        (
            "model: x\ngrid: {batch: 1}\nengine: {max_model_len: 600}\n",
            "a request has 640 tokens, and max_model_len allows 600",
        ),
        ("model: x\ngrid: {batch: 1, tensor_parallel: 3}\n", "3 does not divide the 32 attention"),
        ("model: x\ngrid: {batch: 1, pipeline_parallel: 40}\n", "40 is more than the 36 layers"),
        ("model: x\ngrid: {batch: 1, data_parallel: 4}\n", "it needs 4 GPUs .*, and 2 are visible"),
        (
            "model: x\ngrid: {batch: [8, 9]}\nconstraints: {max_tokens_in_flight: 100}\n",
            r"5,120 tokens in flight, and the plan allows 100 \(and 1 more point\)$",
        ),
    ],
)
def test_a_plan_without_a_possible_point_says_why(text: str, told: str, tmp_path: Path) -> None:
    known = Feasibility(built_in_config("qwen3-8b") or {}, gpus=2)
    with pytest.raises(PlanInvalid, match=told):
        points_of(plan_of(text, tmp_path), known.reason)


def test_impossible_points_are_left_out_with_the_reason_and_the_others_are_run(
    tmp_path: Path,
) -> None:
    text = "model: qwen3-8b\ndummy_weights: true\ngrid: {batch: 1, tensor_parallel: [1, 3, 4]}\n"
    plan = plan_of(text, tmp_path)
    found = points_of(plan, Feasibility(read_model_config(plan), gpus=2).reason)
    assert [point.engine.tp for point in found.run] == [1]
    assert {one.point.engine.tp: one.reason.split()[0] for one in found.skipped} == {
        3: "tensor_parallel",
        4: "it",
    }


def test_an_engine_is_known_by_everything_that_makes_it(tmp_path: Path) -> None:
    text = (
        "model: x\ngrid:\n  batch: 1\n  engine: [{}, {enforce_eager: true}]\n"
        "  environment: [{}, {A: 1}]\n"
    )
    found = points_of(plan_of(text, tmp_path), lambda _point: None)
    assert len(found.engines) == len({engine.key for engine in found.engines}) == 4
    assert {json.dumps(e.environment) for e in found.engines} == {"{}", '{"A": "1"}'}


def test_repeats_are_outside_and_their_order_follows_from_the_seed(tmp_path: Path) -> None:
    text = "model: x\ngrid: {batch: 1, tensor_parallel: [1, 2, 4, 8]}\n"
    points = points_of(plan_of(text, tmp_path), lambda _point: None)

    def order(seed: int) -> list[tuple[int, int]]:
        made = blocks(points, repeats=3, profile=True, seed=seed, is_done=lambda *_: False)
        return [(block.repeat, block.engine.tp) for block in made]

    assert [repeat for repeat, _ in order(0)] == [1] * 4 + [2] * 4 + [3] * 4 + [PROFILED] * 4
    assert order(0) == order(0)
    assert order(0) != order(1)
    assert all({tp for r, tp in order(0) if r == repeat} == {1, 2, 4, 8} for repeat in range(4))


def test_batches_grow_with_the_gpus_of_an_engine(tmp_path: Path) -> None:
    text = (
        "model: x\ngrid: {batch: [16, 32, 64], tensor_parallel: [1, 2, 4]}\n"
        "constraints: {max_in_flight_per_gpu: 16}\n"
    )
    found = points_of(plan_of(text, tmp_path), lambda _point: None).run
    assert [(point.engine.tp, point.batch) for point in found] == [
        (1, 16), (2, 16), (2, 32), (4, 16), (4, 32), (4, 64),
    ]  # fmt: skip


GPU_BYTES = 24 * 10**9
LARGE = built_in_config("qwen3-32b") or {}


def skipped(config: dict[str, Any], *settings: str, **changed: Any) -> dict[int, str]:
    """The reason for each tensor-parallel size that is left out."""
    given = [parse_set("grid.tensor_parallel=[1, 2, 4]"), *map(parse_set, settings)]
    model = Override(("model",), "qwen3-32b", "--model")
    plan = read_plan(None, preset="quick", overrides=[model, *given])
    known = replace(Feasibility(config, 8, GPU_BYTES, weight_bytes), **changed)
    found = points_of(plan, known.reason)
    return {one.point.engine.tp: one.reason for one in found.skipped}


def test_weights_that_do_not_fit_are_the_reason() -> None:
    # 64 layers of 5120: heads 64 and 8 of 128, MLP 25600; two tables of 151,936 rows; two bytes.
    layer = 5120 * 128 * (64 + 2 * 8) + 64 * 128 * 5120 + 3 * 5120 * 25_600
    whole = 2 * (64 * layer + 2 * 151_936 * 5120)
    assert weight_bytes(LARGE, tp=1, pp=1, dp=1, ep=False) == whole
    told = "each GPU needs {:.1f} GB for weights, and the largest has 24.0 GB"
    assert skipped(LARGE) == {1: told.format(whole / 1e9), 2: told.format(whole / 2e9)}
    # Stages share the weights, and replicas do not.
    assert skipped(LARGE, "grid.pipeline_parallel=2").keys() == {1}
    assert skipped(LARGE, "grid.data_parallel=2").keys() == {1, 2}


def test_experts_may_be_spread_over_all_replicas() -> None:
    config = built_in_config("qwen3-30b-a3b") or {}
    alone, spread = (weight_bytes(config, tp=1, pp=1, dp=dp, ep=False) for dp in (1, 4))
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert (alone or 0) - (spread or 0) == pytest.approx(experts * 3 / 4, rel=0.001)


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        (("engine.quantization=fp8",), {}),
        ((), {"gpu_bytes": None}),
        ((), {"gpu_bytes": 66 * 10**9}),
    ],
)
def test_what_is_not_known_is_no_reason(settings: tuple[str, ...], known: dict[str, Any]) -> None:
    assert skipped(LARGE, *settings, **known) == {}


def test_the_command_leaves_them_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "installed_vllm", lambda: InstalledVllm("0.32.0", "vllm"))
    monkeypatch.setattr(runner, "visible_gpus", lambda: 4)
    monkeypatch.setattr(runner, "largest_gpu_bytes", lambda: GPU_BYTES)
    done = called(
        *("experiment", "run", "--preset", "quick", "--model", "qwen3-32b", "--dry-run"),
        *("--set", "dummy_weights=true", "--sweep", "tensor_parallel:1,4"),
    )
    told = done.stderr.decode()
    assert done.returncode == 0, told
    assert "4 points: each GPU needs 65.5 GB for weights, and the largest has 24.0 GB" in told
    assert "4 points on 1 engine configuration" in told
