"""The checks of the exercises in `07_kv_cache`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    real_tensor,
    shown,
    truth,
)

CAUSAL = "a causal model"
LENGTH = 6  # tokens of the prompt on which the models are tried


def check_positions(function: Any) -> str:
    """Check ``function(L, T)``: positions computed for T tokens, (without, with) a cache."""

    def without(length: int, tokens: int) -> int:
        return tokens * length + tokens * (tokens - 1) // 2

    sizes = [(length, tokens) for length in (1, 8, 35) for tokens in (1, 2, 13)]
    return check_table(
        function,
        {(n, t): (without(n, t), n + t - 1) for n, t in sizes},
        {
            "the last token picked is never computed: it has not been an input": (
                lambda n, t: (without(n, t), n + t)
            ),
            "without a cache the input gets longer with each token": (
                lambda n, t: (t * n, n + t - 1)
            ),
            "token 1 comes out of the forward over the prompt alone: begin with L": (
                lambda n, t: (without(n + 1, t), n + t - 1)
            ),
            "first without a cache, then with one": (lambda n, t: (n + t - 1, without(n, t))),
        },
    )


def check_attention(function: Any) -> str:
    """Check ``function(q, keys, values)``: [D], [n, D], [n, D] → the mixture of values, [D]."""
    if function is ...:
        return UNTRIED
    for length, size in ((1, 4), (3, 3), (5, 16)):
        hint = _attention_hint(function, length, size)
        if hint:
            return UNTRIED if hint == UNTRIED else answer(hint)
    return RIGHT


def _attention_hint(function: Any, length: int, size: int) -> str | None:
    generator = torch.Generator().manual_seed(length)
    q = 2 * torch.randn(size, generator=generator)
    keys, values = 2 * torch.randn(2, length, size, generator=generator)
    result, error = attempt(function, q.clone(), keys.clone(), values.clone())
    if result is ...:
        return UNTRIED
    found = real_tensor(result)
    if error or found is None:
        return error or f"return a tensor, not {shown(result)}"
    if found.shape != (size,):
        return f"the mixture of {length} values of size {size} has shape [{size}], yours " + str(
            list(found.shape)
        )
    scores = keys @ q
    mistakes = {
        "divide the scores by the root of the head size": scores.softmax(-1) @ values,
        "divide by the root of the head size, not by the head size": (
            (scores / size).softmax(-1) @ values
        ),
        "the shares have to add up to one: where is softmax?": (scores / size**0.5) @ values,
        "only the first key is seen: `is_causal` takes the one query for the first token": values[
            0
        ],
        "you mix the keys; they are only compared": (scores / size**0.5).softmax(-1) @ keys,
    }
    right = scaled_dot_product_attention(q[None], keys, values)[0]
    return _hint(found, right, mistakes)


def _hint(
    result: torch.Tensor, right: torch.Tensor, mistakes: dict[str, torch.Tensor]
) -> str | None:
    """Return nothing where the result is right, else the known mistake that gives the same."""
    rounding = torch.finfo(result.dtype).eps if result.is_floating_point() else 0.0
    near = max(1e-4, 2 * rounding * float(right.abs().max()))
    off = (result.double() - right.double()).abs().max()
    if off <= near:
        return None
    for hint, wrong in mistakes.items():
        if (result.double() - wrong.double()).abs().max() <= near:
            return hint
    return f"your mixture is off by {off:.3f}"


def check_reusable(function: Any) -> str:
    """Check ``function(old_ids, new_ids)``: how many leading columns of a cache can be used."""

    def same_place(old: tuple[int, ...], new: tuple[int, ...]) -> int:
        return sum(a == b for a, b in zip(old, new, strict=False))

    return check_table(
        function,
        {
            ((5, 6, 7), (5, 6, 8, 9)): 2,
            ((5, 6, 7, 8), (5, 9, 7, 8)): 1,
            ((5, 6), (6, 5)): 0,
            ((5, 6), (5, 6, 7)): 2,
            ((5, 6, 7), (5, 6)): 2,
            ((), (5,)): 0,
        },
        {
            "after the first difference, columns have seen another past and cannot be used": (
                same_place
            ),
            "it matters where a token stands: a cached key has its position built in": (
                lambda old, new: len(set(old) & set(new))
            ),
        },
    )


def check_past_is_safe(function: Any) -> str:
    """Check ``function(model, ids)``: whether the last token leaves the past's K and V alone.

    It is tried on tiny random models: a causal one, one in which all tokens see each other, one
    whose values alone, in its only layer, know the whole text, and two in which the keys or the
    values of the first of two layers do, and nothing after it.
    """
    if function is ...:
        return UNTRIED
    ids = torch.arange(LENGTH)[None]  # [1, L]
    for name, model in _models():
        right = name == CAUSAL
        result, error = attempt(function, model, ids.clone())
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        if truth(result) is None:
            return answer(f"return True or False, not {shown(result)}")
        if truth(result) != right:
            return answer(f"for {name} the answer is {right}: " + _where_to_look(right))
    return RIGHT


def _models() -> Iterator[tuple[str, PreTrainedModel]]:
    """Yield models with what is special about each; only the first one keeps the past safe."""
    yield CAUSAL, _tiny(layers=2)
    yield "a model in which every token sees every other", _see_everything(_tiny(layers=2))
    knows = "know the whole text"
    yield f"a model whose values, not its keys, {knows}", _leak(_tiny(layers=1), "v_proj")
    for projection, part in (("k_proj", "keys"), ("v_proj", "values")):
        name = f"a model in which only the first layer's {part} {knows}"
        yield name, _leak(_tiny(layers=2), projection)


def _where_to_look(right: bool) -> str:
    if right:
        return "do you compare the first n − 1 columns of both, and allow for rounding?"
    return "do you compare keys and values, of every layer?"


def _tiny(layers: int) -> PreTrainedModel:
    """Return a random model whose weights are large enough for a difference to be seen."""
    config = Qwen2Config(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Qwen2ForCausalLM(config).eval()


def _see_everything(model: PreTrainedModel) -> PreTrainedModel:
    """Return the model with a mask that hides nothing in the place of any other."""

    def open_mask(_: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
        ids = keywords["input_ids"] if "input_ids" in keywords else arguments[0]
        length = ids.shape[1]
        return arguments, {**keywords, "attention_mask": torch.zeros(1, 1, length, length)}

    model.register_forward_pre_hook(open_mask, with_kwargs=True)
    return model


def _leak(model: PreTrainedModel, projection: str) -> PreTrainedModel:
    """Return the model with the mean over all positions added to its first layer's keys or values.

    Layers after it notice nothing: what the first layer's attention gives is multiplied by 0.
    """
    attention = model.base_model.layers[0].self_attn
    getattr(attention, projection).register_forward_hook(
        lambda _module, _inputs, made: made + made.mean(dim=1, keepdim=True)
    )
    torch.nn.init.zeros_(attention.o_proj.weight)
    return model
