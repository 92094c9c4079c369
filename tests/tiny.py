"""Tiny models and a tokenizer made on the spot: everything a test needs without a download.

The one place that makes them. Weights are random with a fixed seed and far larger than a fresh
model's: with the usual small ones a wrong mask or position hardly moves the logits, and mistakes
stay unseen. The tokenizer is trained on the few sentences below and has the parts of a chat
model's: byte-level BPE, ChatML control tokens, a template with a default system message.
"""

import copy
from functools import cache
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

VOCABULARY = 352  # rows of the embedding: more than the tokenizer's ids, as in real checkpoints
WINDOW = 128  # positions

SENTENCES = (
    "What's for lunch today? There is soup, bread and an apple for lunch.",
    "The user asks and the assistant answers; the system says how it should speak.",
    "You are a small helper made for tests. Today the bread is warm, the soup is not.",
)

WORDS = r"'[a-z]+| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

TEMPLATE = """\
{%- if messages[0].role != 'system' -%}
{{ '<|im_start|>system\\nYou are a small helper made for tests.<|im_end|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content or [] -%}{{ part.text }}{%- endfor -%}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call> ' + call.name + ' ' + (call.arguments | tojson) + '</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""


@cache
def _trained() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = ByteLevelDecoder()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(SENTENCES, trainer)
    backend.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    # Not special, matched as whole strings all the same; one spelling continues another.
    calls = ["<tool_call>", "</tool_call>", "<tool_call>s"]
    backend.add_tokens([AddedToken(text, special=False, normalized=False) for text in calls])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of some 326 ids that a test may change as it likes."""
    return copy.deepcopy(_trained())


def tiny_config(**changes: Any) -> Qwen2Config:
    """Return the config of a two-layer Qwen2 whose EOS is the tokenizer's."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": WINDOW,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
        "eos_token_id": _trained().eos_token_id,
        "pad_token_id": _trained().pad_token_id,
    }
    return Qwen2Config(**(settings | changes))


def tiny_model(
    seed: int = 0, *, generation: dict[str, Any] | None = None, **config: Any
) -> Qwen2ForCausalLM:
    """Return a random fp32 model on the CPU; ``generation`` goes into its generation config."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(tiny_config(**config))
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # fresh biases are 0, and 0 hides where one is forgotten
                torch.nn.init.normal_(parameter, std=0.3)
    defaults = {
        "eos_token_id": model.config.eos_token_id,
        "pad_token_id": model.config.pad_token_id,
    }
    model.generation_config = GenerationConfig(**(defaults | (generation or {})))
    return model.eval()


def random_inputs(length: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return ids and mask of one random prompt, [1, length]."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 320, (1, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
