"""A tokenizer for models without one: each token is a word, and words give back the same tokens."""

import json
from pathlib import Path
from typing import Any


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
