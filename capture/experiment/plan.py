"""The plan of an experiment: what varies, what is constant, how often it is repeated.

These types define the YAML file and its JSON schema.
"""

import re
from inspect import cleandoc
from textwrap import dedent
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Milliseconds = Annotated[float, Meta(gt=0)]
Rate = Annotated[float, Meta(gt=0)] | Literal["inf"]
Counts = Count | Annotated[list[Count], Meta(min_length=1)]
Arguments = dict[str, Any]
Variables = dict[str, bool | int | float | str]

SCHEMA_URL = "https://json-schema.org/draft/2020-12/schema"


_ATTRIBUTE = re.compile(r"^(\w+): (.+(?:\n +.+)*)", re.MULTILINE)


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping of the file."""


class Grid(_Part, frozen=True):
    """What varies: every combination is a point. A single value stands for a list of one.

    Attributes:
        tensor_parallel: GPUs that share each layer.
        pipeline_parallel: stages that share the layers.
        data_parallel: replicas that share the requests.
        expert_parallel: whether whole experts are on one GPU each, in mixtures of experts.
        batch: requests that are sent together, and none after them.
        concurrency: requests in flight: when one has finished, the next is sent.
        request_rate: requests per second that arrive (Poisson), or inf.
        prompt_tokens: tokens of each prompt, which are random.
        output_tokens: tokens that each request generates.
        engine: sets of arguments of vLLM's engine; each is a variant.
        environment: sets of environment variables of the server; each is a variant.
    """

    tensor_parallel: Counts = 1
    pipeline_parallel: Counts = 1
    data_parallel: Counts = 1
    expert_parallel: bool | Annotated[list[bool], Meta(min_length=1)] = False
    batch: Counts | None = None
    concurrency: Counts | None = None
    request_rate: Rate | Annotated[list[Rate], Meta(min_length=1)] = "inf"
    prompt_tokens: Counts = 512
    output_tokens: Counts = 128
    engine: Annotated[list[Arguments], Meta(min_length=1)] = field(default_factory=lambda: [{}])
    environment: Annotated[list[Variables], Meta(min_length=1)] = field(
        default_factory=lambda: [{}]
    )


class Constraints(_Part, frozen=True):
    """Points beyond these limits are skipped, and the reason is recorded.

    Attributes:
        max_gpus: GPUs of an engine (TP x PP x DP).
        max_tokens: prompt and output tokens of a request.
        max_tokens_in_flight: tokens of all requests in flight together.
        max_in_flight_per_gpu: requests in flight per GPU of an engine, so that batches grow with
            the GPUs.
    """

    max_gpus: Count | None = None
    max_tokens: Count | None = None
    max_tokens_in_flight: Count | None = None
    max_in_flight_per_gpu: Count | None = None


class Limits(_Part, frozen=True):
    """What a request must meet to count as good (goodput).

    Attributes:
        ttft_ms: maximum time to the first token, ms.
        tpot_ms: maximum time per output token after the first, ms.
        e2e_ms: maximum time to the last token, ms.
    """

    ttft_ms: Milliseconds | None = None
    tpot_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None


class Record(_Part, frozen=True):
    """What is recorded of a point besides its times.

    Attributes:
        profile: one more repeat of each point under the profiler; its times do not count.
        seconds: how long the profiler records after all requests in flight have their first token.
        tool: the profiler: torch, or nsys or ncu where they are installed.
        outputs: whether the generated text is stored.
    """

    profile: bool = True
    seconds: Seconds = 1.0
    tool: Literal["torch", "nsys", "ncu"] = "torch"
    outputs: bool = True


class Plan(_Part, frozen=True):
    """An experiment.

    Attributes:
        name: names the folder of results; letters, digits, '.', '_' and '-'.
        question: what the experiment should answer; the report begins with it.
        model: a model folder, a Hugging Face id or a built-in architecture such as qwen3-8b.
        dummy_weights: random weights; nothing is downloaded for a built-in architecture.
        engine: arguments of vLLM's engine for all points.
        environment: environment variables of the server for all points.
        grid: what varies.
        constraints: which points are skipped.
        limits: what a good request must meet.
        record: what is recorded besides times.
        bench: the benchmark: vllm bench serve, or vllm bench latency, which starts an engine for
            each point.
        rounds: requests of a point are this many times its concurrency.
        repeats: starts of the server; verdicts count them.
        gates: whether the results may serve as a baseline; a quick look may not.
        seed: of the prompts and of the order of servers.
        port: of the server; a free one by default.
        start_timeout_s: how long a server may take until it answers, s.
        point_timeout_s: how long a repeat of a point may take, s.
    """

    model: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    question: str | None = None
    dummy_weights: bool = False
    engine: Arguments = {}
    environment: Variables = {}
    grid: Grid = field(default_factory=Grid)
    constraints: Constraints = field(default_factory=Constraints)
    limits: Limits = field(default_factory=Limits)
    record: Record = field(default_factory=Record)
    bench: Literal["serve", "latency"] = "serve"
    rounds: Count = 4
    repeats: Annotated[int, Meta(ge=1, le=1000)] = 5
    gates: bool = True
    seed: int = 0
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    start_timeout_s: Seconds = 1200
    point_timeout_s: Seconds = 3600


_PARTS = {one.__name__: one for one in (Plan, Grid, Constraints, Limits, Record)}


def plan_schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors and other programs."""
    schema = msgspec.json.schema(Plan)
    for name, kind in _PARTS.items():
        described = schema["$defs"][name]
        described["description"], texts = _described(kind)
        for key, text in texts.items():
            described["properties"][key]["description"] = text
    return {"$schema": SCHEMA_URL, "title": "Plan of a traceql experiment", **schema}


def _described(kind: type) -> tuple[str, dict[str, str]]:
    """The first sentences of a docstring, and the text of each attribute."""
    text, _, attributes = cleandoc(kind.__doc__ or "").partition("\n\nAttributes:\n")
    found = _ATTRIBUTE.findall(dedent(attributes))
    return " ".join(text.split()), {name: " ".join(text.split()) for name, text in found}
