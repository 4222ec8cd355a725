"""What a step has to process on one rank."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Load:
    """The sizes of a step.

    Attributes:
        phase: decode or prefill.
        requests: in the step; each has one row of logits.
        tokens: rows of every other product.
        length: mean tokens of a request whose keys and values are read, its new ones included.
    """

    phase: str
    requests: int
    tokens: int
    length: int

    @property
    def kv_tokens(self) -> int:
        return self.requests * self.length

    @property
    def context_pairs(self) -> float:
        """Pairs of a query and a key of prompts, of which a token sees those before it."""
        return self.requests * self.length * (self.length + 1) / 2 if self.phase == "prefill" else 0

    @property
    def generation_pairs(self) -> float:
        return self.kv_tokens if self.phase == "decode" else 0

    def of_replicas(self, replicas: int) -> "Load":
        """What so many replicas with this load process together."""
        return replace(self, requests=self.requests * replicas, tokens=self.tokens * replicas)


def decode(requests: int, length: int) -> Load:
    """A step that generates one token of each request."""
    return Load("decode", requests, requests, length)


def prefill(prompt_tokens: int, prompts: int = 1) -> Load:
    """A step that processes whole prompts."""
    return Load("prefill", prompts, prompts * prompt_tokens, prompt_tokens)
