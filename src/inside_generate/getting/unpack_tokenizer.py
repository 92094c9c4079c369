"""The tokenizer inside a GGUF file -> the tokenizer as its makers published it.

What it knows: what a GGUF keeps of a tokenizer (tokens, their types, merges, a template) and
what it drops: how text is normalised and split before the merges, and which of the added tokens
are special. Those come from the published tokenizers of the two families.
"""

from __future__ import annotations

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast, Qwen2Tokenizer

from inside_generate.errors import InsideGenerateError

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # token types; 5, unused, fills up the embedding's rows

# Added, but not special as published: `skip_special_tokens` leaves them in the text. The GGUF
# calls most of them control tokens all the same.
QWEN_NOT_SPECIAL = {
    *("<tool_call>", "</tool_call>", "<|repo_name|>", "<|file_sep|>"),
    *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
}

Merges = list[tuple[str, str]]


def build_tokenizer(reader: gguf.GGUFReader) -> PreTrainedTokenizerBase:
    """Return a tokenizer that gives the published one's ids, texts, length and template."""
    head = {
        name: reader.get_field(f"tokenizer.{name}").contents()
        for name in ("ggml.pre", "ggml.tokens", "ggml.token_type", "ggml.merges", "chat_template")
    }
    family = head["ggml.pre"]
    if family not in BUILDERS:
        raise InsideGenerateError(
            f"cannot unpack a GGUF tokenizer of family {family!r}, only {', '.join(BUILDERS)}"
        )
    merges: Merges = [tuple(pair.split(" ")) for pair in head["ggml.merges"]]
    tokenizer = BUILDERS[family](head["ggml.tokens"], head["ggml.token_type"], merges)
    tokenizer.chat_template = head["chat_template"]
    return tokenizer


def build_qwen2(tokens: list[str], types: list[int], merges: Merges) -> Qwen2Tokenizer:
    """Return Qwen2's: text is NFC-normalised; added tokens stand outside the base vocabulary."""
    numbered = list(enumerate(zip(tokens, types, strict=True)))
    added = {
        token_id: AddedToken(token, special=token not in QWEN_NOT_SPECIAL, normalized=False)
        for token_id, (token, kind) in numbered
        if kind in (CONTROL, USER_DEFINED)
    }
    special = [token.content for token in added.values() if token.special]
    return Qwen2Tokenizer(
        vocab={token: token_id for token_id, (token, kind) in numbered if kind == NORMAL},
        merges=merges,
        added_tokens_decoder=added,
        extra_special_tokens=[token for token in special if token != "<|endoftext|>"],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        model_max_length=32768,
        clean_up_tokenization_spaces=False,
    )


def build_smollm(tokens: list[str], types: list[int], merges: Merges) -> PreTrainedTokenizerFast:
    """Return SmolLM2's: GPT-2's way to split, with each digit by itself; no normalising."""
    inner = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    inner.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    inner.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        extra_special_tokens=special,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    )


BUILDERS = {"qwen2": build_qwen2, "smollm": build_smollm}
