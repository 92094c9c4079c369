"""The loop against the library's own and against itself without a cache: the same numbers.

On tiny fp32 models on the CPU. Tolerances: 1e-4 on logits of size 10 in fp32, where sums are taken
in another order (another length or cache); two steps of bf16's grid at the size of the largest
logit in bf16.
"""

import pytest
import torch
from tests.tiny import random_inputs, tiny_model
from transformers import GenerationConfig, StaticCache

from inside_generate import (
    append_one,
    cached_length,
    decode_step,
    encode,
    generate,
    greedy,
    prefill,
    stream,
)

PROMPTS = ("What's for lunch today?", [{"role": "user", "content": "soup"}])
PENALISED = {
    "do_sample": True,
    "repetition_penalty": 1.1,
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
}


def library_ids(model, inputs, left_pads=0, **settings):
    """Return the new ids of ``model.generate()`` for one prompt, without what pads it."""
    pads = inputs["input_ids"].new_full((1, left_pads), model.config.pad_token_id)
    output = model.generate(
        input_ids=torch.cat([pads, inputs["input_ids"]], dim=1),
        attention_mask=torch.cat([torch.zeros_like(pads), inputs["attention_mask"]], dim=1),
        **settings,
    )
    return output[0, left_pads + inputs["input_ids"].shape[1] :].tolist()


def recording(logits_of_steps, sampler=greedy):
    """Return a sampler that also keeps the logits that it saw."""

    def sample(logits):
        logits_of_steps.append(logits.clone())
        return sampler(logits)

    return sample


# --- equal to generate() --------------------------------------------------------------------------


@pytest.mark.parametrize("left_pads", [0, 5])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("prompt", PROMPTS, ids=["string", "list"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ids_equal_the_librarys_token_for_token(tokenizer, seed, prompt, cache, left_pads):
    model = tiny_model(seed)
    ours = generate(model, tokenizer, prompt, max_new_tokens=16).generated_ids
    theirs = library_ids(
        model,
        encode(tokenizer, prompt),
        left_pads,
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=16,
        cache_implementation=cache,
        disable_compile=True,
    )
    assert ours == theirs
    assert len(set(ours)) > 8, "a run that repeats itself would prove little"


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4], ids=["MQA", "GQA", "MHA"])
def test_ids_equal_the_librarys_for_each_kind_of_attention_and_head(tokenizer, tied, kv_heads):
    # A tied matrix with large weights would predict each token again: smaller ones here.
    model = tiny_model(
        3,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=tied,
        initializer_range=0.15 if tied else 0.3,
    )
    ours = generate(model, tokenizer, "Who bakes the bread?", max_new_tokens=16).generated_ids
    assert ours == library_ids(
        model,
        encode(tokenizer, "Who bakes the bread?"),
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=16,
    )


@pytest.mark.parametrize("seed", range(4))
def test_ids_equal_the_librarys_for_a_checkpoint_with_a_penalty_and_several_eos_ids(
    tokenizer, seed
):
    stops = [tokenizer.eos_token_id, *range(0, 320, 16)]  # enough of them that one comes up
    model = tiny_model(seed, generation={**PENALISED, "eos_token_id": stops})
    inputs = encode(tokenizer, "soup")
    trace = generate(model, tokenizer, "soup", max_new_tokens=60)
    assert trace.generated_ids == library_ids(
        model, inputs, do_sample=False, repetition_penalty=1.0, max_new_tokens=60
    )
    assert trace.stop_reason == "eos"
    assert trace.generated_ids[-1] in stops


def test_only_a_penalty_of_one_makes_the_library_greedy(tokenizer):
    """``do_sample=False`` alone keeps the checkpoint's penalty, and so does a fresh config."""
    model = tiny_model(generation={**PENALISED, "repetition_penalty": 1.5})
    inputs = encode(tokenizer, PROMPTS[0])
    ours = generate(model, tokenizer, PROMPTS[0], max_new_tokens=24).generated_ids
    plain = library_ids(model, inputs, do_sample=False, max_new_tokens=24)
    fresh = library_ids(
        model, inputs, generation_config=GenerationConfig(do_sample=False, max_new_tokens=24)
    )
    unpenalised = library_ids(
        model, inputs, do_sample=False, repetition_penalty=1.0, max_new_tokens=24
    )
    assert ours == unpenalised
    assert ours != plain
    assert ours != fresh


def prompt_that_holds_its_best_next_token(model):
    for seed in range(50):
        inputs = random_inputs(100, seed)
        best = int(prefill(model, inputs).logits.argmax())
        if best in inputs["input_ids"]:
            return inputs, best
    raise AssertionError("none of 50 random prompts")


def test_the_librarys_penalty_counts_prompt_tokens_too():
    model = tiny_model(generation={"repetition_penalty": 100.0})
    inputs, best = prompt_that_holds_its_best_next_token(model)
    assert library_ids(model, inputs, do_sample=False, max_new_tokens=1) != [best]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("seed", [0, 1])
def test_logits_equal_the_librarys_at_each_step(tokenizer, dtype, seed):
    model = tiny_model(seed).to(dtype)
    inputs = encode(tokenizer, PROMPTS[0])
    seen = []
    trace = generate(model, tokenizer, PROMPTS[0], max_new_tokens=16, sampler=recording(seen))
    theirs = model.generate(
        **inputs,
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=16,
        output_logits=True,
        return_dict_in_generate=True,
    )
    assert trace.generated_ids == theirs.sequences[0, inputs["input_ids"].shape[1] :].tolist()
    ours = torch.stack(seen).float()
    # 2^-7 is the distance of two bf16 numbers from 1 to 2; the largest logit stretches it.
    tolerance = 1e-4 if dtype == torch.float32 else 2 * 2**-7 * float(ours.abs().max())
    torch.testing.assert_close(ours, torch.stack(theirs.logits).float(), atol=tolerance, rtol=0)


# --- cached equals uncached -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cached_logits_equal_uncached_at_each_step(tokenizer, seed):
    model = tiny_model(seed)
    seen = []
    trace = generate(model, tokenizer, PROMPTS[0], max_new_tokens=12, sampler=recording(seen))
    ids = trace.prompt_ids + trace.generated_ids
    for number, cached in enumerate(seen):
        prefix = torch.tensor([ids[: len(trace.prompt_ids) + number]])
        with torch.inference_mode():
            uncached = model(input_ids=prefix, use_cache=False).logits[:, -1]
        torch.testing.assert_close(cached, uncached, atol=1e-4, rtol=0)


def test_a_left_padded_row_gives_the_logits_of_the_row_alone():
    model = tiny_model()
    inputs = random_inputs(7)
    pads = torch.zeros(1, 5, dtype=torch.long)
    padded = {
        "input_ids": torch.cat([pads, inputs["input_ids"]], dim=1),
        "attention_mask": torch.cat([pads, inputs["attention_mask"]], dim=1),
    }
    alone, in_batch = prefill(model, inputs), prefill(model, padded)
    masks = [inputs["attention_mask"], padded["attention_mask"]]
    for _ in range(10):
        torch.testing.assert_close(in_batch.logits, alone.logits, atol=1e-4, rtol=0)
        token_ids = greedy(alone.logits)[:, None]
        masks = [append_one(mask) for mask in masks]
        alone = decode_step(model, token_ids, alone.cache, masks[0])
        in_batch = decode_step(model, token_ids, in_batch.cache, masks[1])


def test_a_left_padded_prompt_streams_the_same_tokens(model, tokenizer):
    inputs = encode(tokenizer, "soup")
    padded = {name: torch.nn.functional.pad(row, (5, 0)) for name, row in inputs.items()}
    alone, behind_pads = (
        [step.token_id for step in stream(model, tokenizer, row, max_new_tokens=8)]
        for row in (inputs, padded)
    )
    assert behind_pads == alone


def test_two_rows_of_different_length_give_the_logits_of_each_alone():
    model = tiny_model()
    rows = [random_inputs(3, seed=1), random_inputs(7, seed=2)]
    batch = {
        name: torch.cat([torch.nn.functional.pad(rows[0][name], (4, 0)), rows[1][name]])
        for name in ("input_ids", "attention_mask")
    }
    together = prefill(model, batch)
    alone = [prefill(model, row) for row in rows]
    expected = torch.cat([row.logits for row in alone])
    torch.testing.assert_close(together.logits, expected, atol=1e-4, rtol=0)

    token_ids = greedy(expected)[:, None]
    together = decode_step(model, token_ids, together.cache, append_one(batch["attention_mask"]))
    after = [
        decode_step(model, token_ids[i : i + 1], row.cache, append_one(rows[i]["attention_mask"]))
        for i, row in enumerate(alone)
    ]
    expected = torch.cat([row.logits for row in after])
    torch.testing.assert_close(together.logits, expected, atol=1e-4, rtol=0)


def test_a_static_cache_serves_the_same_steps(model):
    """The door takes any cache of the library's: its length is asked, never assumed."""
    inputs = random_inputs(8)
    dynamic = prefill(model, inputs)
    static = StaticCache(config=model.config, max_cache_len=16)
    with torch.inference_mode():
        model(**inputs, cache=static, use_cache=True)
    token_ids, mask = greedy(dynamic.logits)[:, None], torch.ones(1, 9, dtype=torch.long)
    ours = decode_step(model, token_ids, dynamic.cache, mask)
    same = decode_step(model, token_ids, static, mask)
    assert cached_length(static) == 9
    torch.testing.assert_close(same.logits, ours.logits, atol=1e-4, rtol=0)
