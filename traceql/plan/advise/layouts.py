"""The layouts of a model on so many GPUs: tensor, pipeline, data and expert parallelism."""

from collections.abc import Iterator
from dataclasses import dataclass

from traceql.analysis.model.sizes import Sizes


@dataclass(frozen=True)
class Layout:
    """How a model is spread over GPUs.

    Attributes:
        tp: ranks that the tensors of a layer are split over.
        pp: stages that the layers are split over.
        dp: replicas, which share the requests; without `ep` they are servers of their own.
        ep: whether whole experts are spread over the ranks of all replicas.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def expert_ranks(self) -> int:
        """Ranks that the experts of a layer are spread over."""
        return self.tp * self.dp if self.ep else self.tp

    def __str__(self) -> str:
        sizes = {"TP": self.tp, "PP": self.pp, "DP": self.dp}
        named = [f"{name} {size}" for name, size in sizes.items() if size > 1] or ["TP 1"]
        return " x ".join(named) + (" with EP" if self.ep else "")


def layouts(model: Sizes, gpus: int) -> list[Layout]:
    """Every layout of at most so many GPUs that vLLM can run, the smallest first."""
    found = [
        layout
        for layout in _combinations(gpus, has_experts=model.experts is not None)
        if obstacle(model, layout) is None
    ]
    return sorted(found, key=lambda one: (one.gpus, one.tp, one.pp, one.ep))


def _combinations(gpus: int, *, has_experts: bool) -> Iterator[Layout]:
    for tp in range(1, gpus + 1):
        for pp in range(1, gpus // tp + 1):
            for dp in range(1, gpus // (tp * pp) + 1):
                yield Layout(tp, pp, dp)
                if has_experts and tp * dp > 1:
                    yield Layout(tp, pp, dp, ep=True)


def obstacle(model: Sizes, layout: Layout) -> str | None:
    """Why vLLM cannot run a layout of the model; None if it can."""
    tp, kv_heads = layout.tp, model.kv_heads
    if model.heads % tp:
        return f"{model.heads} heads cannot be divided by {tp}"
    if not model.latent and kv_heads % tp and tp % kv_heads:
        return f"{kv_heads} KV heads can neither be divided by {tp} nor repeated on {tp} ranks"
    if model.ffn and model.ffn % tp:
        return f"an MLP of {model.ffn} cannot be divided by {tp}"
    if model.experts and not layout.ep and model.experts.ffn % tp:
        return f"experts of {model.experts.ffn} cannot be divided by {tp}"
    if model.experts and layout.ep and layout.expert_ranks > model.experts.count:
        return f"{model.experts.count} experts are fewer than {layout.expert_ranks} ranks"
    if layout.pp > len(model.layers):
        return f"{len(model.layers)} layers are fewer than {layout.pp} stages"
    return None


def stage_sizes(layers: int, stages: int) -> list[int]:
    """The numbers of layers of the stages; of those that remain, the last stage has none."""
    sizes = [layers // stages] * stages
    for number in range(layers % stages):
        sizes[-2 - number] += 1
    return sizes


def replicas_are_apart(layout: Layout) -> bool:
    """Whether no replica has to wait for another one."""
    return not (layout.ep and layout.dp > 1)
