"""The model's own tokenizer, built from the vocabulary in its GGUF file."""

from __future__ import annotations

from pathlib import Path

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_CONTROL = 3


def read_tokenizer(model: Path) -> Tokenizer:
    """Cuts as llama.cpp does for `smollm`: digits one by one, then words by GPT-2's rule."""
    reader = gguf.GGUFReader(model)
    words, merges, kinds = (
        _field(reader, f"tokenizer.ggml.{name}").contents() for name in ("tokens", "merges", "token_type")
    )
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    tokenizer = Tokenizer(models.BPE({word: index for index, word in enumerate(words)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [word for word, kind in zip(words, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in control])
    return tokenizer


def chat_template(model: Path) -> str:
    return str(_field(gguf.GGUFReader(model), "tokenizer.chat_template").contents())


def _field(reader: gguf.GGUFReader, name: str) -> gguf.ReaderField:
    field = reader.get_field(name)
    if field is None:
        raise SystemExit(f"the model file has no {name}")
    return field
