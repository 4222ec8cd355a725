"""Counts parameters and FLOPs with torch and Transformers, without traceql.

    python tests/counted_by_torch.py < CONFIGURATIONS.json

The input is an object of model configurations by name. The output has for each of them the number
of parameters. For those of at most two layers, it also has the FLOPs of the matrix products by
module, and of attention, as FlopCounterMode counts them. All is on the device meta: nothing is
computed.
"""

import json
import sys
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

TOKENS = 48
PROMPT = (7, 19)  # tokens in the step, and of these and the ones before
GENERATED = (1, 19)


def model(config: dict[str, Any]) -> Any:
    given = dict(config)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[given.pop("model_type")](**given))


def by_module(config: dict[str, Any]) -> dict[str, int]:
    """FLOPs of each linear module in a pass of all tokens, by its name."""
    made = model(config)
    found = {}
    for name, module in made.named_modules():
        if isinstance(module, torch.nn.Linear):
            with FlopCounterMode(display=False) as counter:
                module(torch.empty(TOKENS, module.in_features, device="meta"))
            found[name] = counter.get_total_flops()
    return found


def causal_attention(config: dict[str, Any], sq: int, sk: int) -> int:
    """Each query with each of the keys that it sees, one product at a time."""
    heads, kv_heads, size = (
        config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    queries = torch.empty(sq, heads, size, device="meta")
    keys = torch.empty(sk, kv_heads, size, device="meta")
    with FlopCounterMode(display=False) as counter:
        for number, query in enumerate(queries):
            seen = keys[: sk - sq + number + 1].repeat_interleave(heads // kv_heads, 1)
            scores = torch.bmm(query[:, None], seen.permute(1, 2, 0))
            torch.bmm(scores.softmax(-1), seen.transpose(0, 1))
    return int(counter.get_total_flops())


def expanded_latent_attention(config: dict[str, Any], sq: int, sk: int) -> int:
    """Prompts: keys and values of each head, which another product has made of the latent ones."""
    heads = config["num_attention_heads"]
    size = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    queries = torch.empty(sq, heads, size, device="meta")
    keys = torch.empty(heads, sk, size, device="meta")
    values = torch.empty(heads, sk, config["v_head_dim"], device="meta")
    with FlopCounterMode(display=False) as counter:
        for number, query in enumerate(queries):
            seen = sk - sq + number + 1
            scores = torch.bmm(query[:, None], keys[:, :seen].transpose(1, 2))
            torch.bmm(scores.softmax(-1), values[:, :seen])
    return int(counter.get_total_flops())


def absorbed_latent_attention(config: dict[str, Any], sq: int, sk: int) -> dict[str, int]:
    """Generation: as in the inference code of DeepSeek-V3, attention "absorb"."""
    heads, rank = config["num_attention_heads"], config["kv_lora_rank"]
    query = torch.empty(sq, heads, config["qk_nope_head_dim"], device="meta")
    turned = torch.empty(sq, heads, config["qk_rope_head_dim"], device="meta")
    latent = torch.empty(sk, rank, device="meta")
    turned_keys = torch.empty(sk, config["qk_rope_head_dim"], device="meta")
    to_keys = torch.empty(heads, config["qk_nope_head_dim"], rank, device="meta")
    to_values = torch.empty(heads, config["v_head_dim"], rank, device="meta")
    with FlopCounterMode(display=False) as weights:
        absorbed = torch.einsum("shd,hdc->shc", query, to_keys)
        torch.einsum("shc,hdc->shd", absorbed, to_values)
    with FlopCounterMode(display=False) as attention:
        scores = torch.einsum("shc,tc->sht", absorbed, latent)
        scores = scores + torch.einsum("shr,tr->sht", turned, turned_keys)
        torch.einsum("sht,tc->shc", scores.softmax(-1), latent)
    return {"weights": weights.get_total_flops(), "attention": attention.get_total_flops()}


def counted(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in model(config).parameters())
    }
    if config["num_hidden_layers"] > 2:
        return found
    found["modules"] = by_module(config)
    if config.get("kv_lora_rank"):
        found["prompt"] = expanded_latent_attention(config, *PROMPT)
        found["generated"] = absorbed_latent_attention(config, *GENERATED)
    else:
        found["prompt"] = causal_attention(config, *PROMPT)
        found["generated"] = {"attention": causal_attention(config, *GENERATED)}
    return found


if __name__ == "__main__":
    print(json.dumps({name: counted(config) for name, config in json.load(sys.stdin).items()}))
