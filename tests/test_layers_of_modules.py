"""Layers of models that name them otherwise than decoders do: any module that repeats."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from command_line import output

import traceql

REPORT = databases.ROOT.parent / "shared/reports/layers-of-other-modules/trace.json.gz"
Tree = tuple[str, Sequence["Tree"]]  # a class, and what its call calls
PASSES = "SELECT pass, string_agg(layer, ' ' ORDER BY ts) FROM layer GROUP BY pass ORDER BY pass"
OF_RANKS = "SELECT rank, layer, SUM(busy_ns) FROM layer GROUP BY ALL ORDER BY ALL"
LAYERS = "SELECT layer, SUM(busy_ns) FROM layer GROUP BY layer ORDER BY layer"


class Stacks:
    """The events of a program: each module without modules inside launches a kernel of 10 us."""

    def __init__(self) -> None:
        self.events: list[traces.Event] = []
        self._now = 0
        self._instances: Counter[str] = Counter()

    def call(self, tree: Tree, *, as_range: bool = False) -> "Stacks":
        """Calls a module; each call is another instance of its class."""
        name, modules = tree
        begin, self._now = self._now, self._now + 1
        numbered = f"nn.Module: {name}_{self._instances[name]}"
        self._instances[name] += 1
        for module in modules:
            self.call(module, as_range=as_range)
        if not modules:
            self._launch()
        self._now += 1
        cat = "user_annotation" if as_range else "python_function"
        shown = name if as_range else numbered
        self.events.append(traces.host(shown, ts=begin, dur=self._now - begin, cat=cat))
        return self

    def _launch(self) -> None:
        number = len(self.events) + 1
        self.events.append(traces.launch(ts=self._now, correlation=number))
        self.events.append(traces.kernel("gemm", ts=self._now + 2, dur=10, correlation=number))
        self._now += 20

    def passes(self, folder: Path) -> list[tuple[int, str]]:
        """The number of each forward pass, and its layers in their order."""
        run = traceql.open(traceql.load(self.write(folder), folder / "run.duckdb").database)
        rows: list[tuple[int, str]] = run.select(PASSES).fetchall()
        return rows

    def again(self, tree: Tree, **before: int) -> "Stacks":
        """Calls the instances after those of each class with this number."""
        self._instances = Counter(before)
        return self.call(tree)

    def write(self, folder: Path) -> Path:
        return traces.write(folder / "trace.json", *self.events)


def layers_of(folder: Path, *ranks: Stacks) -> list[list[tuple[int, int]]]:
    """Of each rank the number of each layer, and how many kernels it has."""
    for rank, one in enumerate(ranks):
        info = {"rank": rank, "world_size": len(ranks)}
        traces.write(folder / f"rank{rank}.json", *one.events, distributedInfo=info)
    run = traceql.open(traceql.load(folder, folder / "run.duckdb").database)
    found: list[list[tuple[int, int]]] = [[] for _ in ranks]
    for rank, layer, busy_ns in run.select(OF_RANKS).fetchall():
        found[rank].append((layer, busy_ns // 10_000))
    return found


def leaf(name: str = "Linear") -> Tree:
    return name, ()


def block(name: str, leaves: int = 2) -> Tree:
    return name, [leaf()] * leaves


def bert(layer: str = "BertLayer") -> Tree:
    parts = [
        ("BertAttention", [leaf(), leaf("Dropout")]),
        ("BertOutput", [leaf(), leaf("LayerNorm")]),
    ]
    return "BertModel", [leaf("Embedding"), ("BertEncoder", [(layer, parts)] * 3)]


def stages(name: str, sizes: Sequence[int]) -> list[Tree]:
    return [("Sequential", [block(name)] * size) for size in sizes]


def numbers(*kernels: int) -> list[tuple[int, int]]:
    return list(enumerate(kernels))


def model(*modules: Tree) -> Tree:
    return "Model", modules


CASES: dict[str, tuple[Tree, list[tuple[int, int]]]] = {
    "bert": (bert(), numbers(4, 4, 4)),
    "clip": (bert("CLIPEncoderLayer"), numbers(4, 4, 4)),
    "gpt2": (model(leaf("Embedding"), *[block("GPT2Block", 3)] * 4), numbers(3, 3, 3, 3)),
    # The path has "vision", which beside a decoder is another model.
    "vit": (("VisionTransformer", [*[block("TransformerBlock")] * 2]), numbers(2, 2)),
    "resnet": (model(leaf("Conv2d"), *stages("Bottleneck", [2, 1, 2])), numbers(*[2] * 5)),
    # Two stacks of one class are one series of layers.
    "t5": (
        model(("T5Stack", [block("T5Block")] * 2), ("T5Stack", [block("T5Block", 4)] * 2)),
        numbers(2, 2, 4, 4),
    ),
    # Of two classes, the one with more time on the host.
    "towers": (
        model(("Text", [block("TextLayer")] * 2), ("Image", [block("ImageLayer", 9)] * 3)),
        numbers(9, 9, 9),
    ),
    # Two towers of one class are not layers, but what they run is.
    "two-tower": (
        model(*[("Tower", [leaf("Embedding"), ("Stack", [block("Layer")] * 3)])] * 2),
        numbers(*[2] * 6),
    ),
    "wrapped": (model(*[("FullyShardedDataParallel", [block("Block")])] * 3), numbers(2, 2, 2)),
    # Beside a decoder, layers of an image encoder are not counted.
    "image-and-text": (
        model(("Visual", [block("VisionBlock", 9)] * 4), *[block("Qwen2DecoderLayer")] * 2),
        numbers(2, 2),
    ),
    # Two kinds of blocks in a row are numbered together.
    "flux": (
        model(*[block("FluxTransformerBlock", 3)] * 2, *[block("SingleTransformerBlock")] * 2),
        numbers(3, 3, 2, 2),
    ),
    "experts": (
        model(*[("MoeLayer", [leaf("Norm"), ("Moe", [block("ExpertMLP")] * 8)])] * 2),
        numbers(17, 17),
    ),
    "leaves": (model(leaf(), leaf("ReLU"), leaf()), []),
    "one-of-each": (model(block("Encoder"), block("Head")), []),
}


def test_any_container_that_repeats_is_a_layer(tmp_path: Path) -> None:
    """Each rank runs a model of its own."""
    found = layers_of(tmp_path, *(Stacks().call(tree) for tree, _ in CASES.values()))
    assert dict(zip(CASES, found, strict=True)) == {
        name: wanted for name, (_, wanted) in CASES.items()
    }


def test_an_instance_is_one_layer_in_all_forward_passes(tmp_path: Path) -> None:
    assert layers_of(tmp_path, Stacks().call(bert()).again(bert())) == [numbers(8, 8, 8)]


DECODER: Tree = ("T5Stack", [block("T5Block", 4)] * 2)
SEQ2SEQ = model(("T5Stack", [block("T5Block")] * 2), DECODER)
AFTER_ENCODER = {"T5Stack": 1, "T5Block": 2}
BLOCK = block("GPT2Block")
# The layers in each pass.
CALLED: dict[str, tuple[Stacks, list[str]]] = {
    "twice": (Stacks().call(bert()).again(bert()), ["0 1 2"] * 2),
    # The encoder runs once, the decoder for each token.
    "generation": (
        Stacks().call(SEQ2SEQ).again(DECODER, **AFTER_ENCODER).again(DECODER, **AFTER_ENCODER),
        ["0 1 2 3", "2 3", "2 3"],
    ),
    "layer-left-out": (
        Stacks().call(model(*[BLOCK] * 3)).again(BLOCK).again(BLOCK, GPT2Block=2)
        .again(model(*[BLOCK] * 3)),
        ["0 1 2", "0 2", "0 1 2"],
    ),
    # Backward, the layers run again in the reverse order.
    "checkpoints": (
        Stacks().call(model(*[BLOCK] * 2)).again(BLOCK, GPT2Block=1).again(BLOCK),
        ["0 1", "1 0"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("stacks", "wanted"), CALLED.values(), ids=CALLED)
def test_each_pass_has_its_own_layers(stacks: Stacks, wanted: list[str], tmp_path: Path) -> None:
    assert stacks.passes(tmp_path) == list(enumerate(wanted))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("has_layers", [True, False])
def test_each_pass_of_ranges_has_its_own_layers(
    layers: int, has_layers: bool, tmp_path: Path
) -> None:
    """Without ranges of whole layers, those of their parts show passes; a part may run twice."""
    stacks = Stacks()
    for n in [*range(layers)] * 3:
        parts = [(f"model.layers.{n}.{part}", ()) for part in ("attn", "act", "mlp", "act")]
        for tree in [(f"model.layers.{n}", parts)] if has_layers else parts:
            stacks.call(tree, as_range=True)
    assert stacks.passes(tmp_path) == [(n, "0 1"[: 2 * layers - 1]) for n in range(3)]


def test_threads_that_run_a_model_at_the_same_time_have_their_own_passes(tmp_path: Path) -> None:
    one = Stacks().call(bert())
    for event in list(one.events):
        args = {name: number + 1000 for name, number in event["args"].items()}
        one.events.append(event | {"tid": 7, "ts": event["ts"] + 7, "args": args})
    assert one.passes(tmp_path) == [(0, "0 1 2"), (1, "0 1 2")]


def test_ranges_with_the_path_of_a_module_are_layers(tmp_path: Path) -> None:
    ranks = []
    for path in ("transformer.h", "bert.encoder.layer", "blocks", "model.layers", "vision.blocks"):
        names = [f"{path}.5", f"{path}.6"]
        modules = [(name, [(f"{name}.attn", ()), (f"{name}.mlp", ())]) for name in names]
        ranks.append(Stacks().call(("forward", modules), as_range=True))
    assert layers_of(tmp_path, *ranks) == [[(5, 2), (6, 2)]] * len(ranks)


def loaded(path: Path, folder: Path) -> traceql.Run:
    return traceql.open(traceql.load(path, folder / "run.duckdb").database)


@pytest.mark.skipif(not REPORT.exists(), reason="needs shared/reports")
def test_the_report_has_four_layers(tmp_path: Path) -> None:
    run = loaded(REPORT, tmp_path)
    times = [(0, 60_000), (1, 66_000), (2, 72_000), (3, 78_000)]
    assert run.select(LAYERS).fetchall() == times
    breakdown = run.query("layers.breakdown").rows()
    assert [(row["layer"], row["work_ns"]) for row in breakdown] == times
    one = run.query("modules.tree", layer=2).rows()[0]
    assert (one["path"], one["inclusive_ns"]) == ("EncoderModel/Stack/EncoderLayer", 72_000)
    assert "No layers were found" not in output("info", tmp_path / "run.duckdb")


MISSING: list[tuple[list[traces.Event], str]] = [
    ([traces.kernel(ts=0, dur=5)], "the trace has neither stacks nor ranges that name modules"),
    (Stacks().call(block("Net")).events, "no module with modules inside has several instances"),
    ([*(e for e in Stacks().call(bert()).events if e["cat"] == "python_function"),
      traces.kernel(ts=0, dur=5)], "the calls of its layers launched no kernel"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "missing"), MISSING)
def test_info_prints_what_is_missing(
    events: list[traces.Event], missing: str, tmp_path: Path
) -> None:
    path = traces.write(tmp_path / "trace.json", *events)
    traceql.load(path, tmp_path / "run.duckdb")
    text = " ".join(output("info", tmp_path / "run.duckdb").split())
    assert (
        f"No layers were found on rank 0: no kernel writes a KV cache or a state, and {missing}"
        in text
    )


def test_layers_of_modules_are_compared_with_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "bert", "num_hidden_layers": 3}')
    path = Stacks().call(bert()).write(tmp_path)
    run = traceql.open(traceql.load(path, tmp_path / "run.duckdb", model_config=config).database)
    found: Any = run.select("FROM ledger WHERE check_name = 'layers of the model'").rows()[0]
    assert (found["value"], found["total"], found["ok"]) == (3, 3, True)
