"""On a GPU the loop gives what the library gives, what a CPU gives, and the same batched or not.

Tolerances: 1e-4 on logits of size 10 in fp32 on one device, 1e-3 between devices, whose sums run in
other orders; two steps of bf16's grid at the size of the largest logit in bf16.
"""

import pytest
import torch
from tests.tiny import random_inputs, tiny_model
from transformers import StaticCache

from inside_generate import (
    append_one,
    decode_step,
    encode,
    encode_batch,
    generate,
    generate_batch,
    greedy,
    measured_kv_bytes,
    prefill,
)
from inside_generate.cache import kv_cache_bytes
from inside_generate.models import has_finite_logits

PROMPT = "What's for lunch today?"


def on(device, inputs):
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def library_run(model, inputs, tokens):
    return model.generate(
        **inputs,
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=tokens,
        output_logits=True,
        return_dict_in_generate=True,
    )


def our_run(model, tokenizer, tokens):
    seen = []

    def recording(logits):
        seen.append(logits.clone())
        return greedy(logits)

    trace = generate(model, tokenizer, PROMPT, max_new_tokens=tokens, sampler=recording)
    return trace.generated_ids, torch.stack(seen).float()


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_tokens_and_logits_equal_the_librarys_at_each_step(request, tokenizer, device, dtype):
    model = request.getfixturevalue(dtype)
    inputs = encode(tokenizer, PROMPT, device)
    ids, logits = our_run(model, tokenizer, 24)
    theirs = library_run(model, inputs, 24)
    assert ids == theirs.sequences[0, inputs["input_ids"].shape[1] :].tolist()
    # 2^-7 is the distance of two bf16 numbers from 1 to 2; the largest logit stretches it.
    tolerance = 1e-4 if dtype == "fp32" else 2 * 2**-7 * float(logits.abs().max())
    torch.testing.assert_close(logits, torch.stack(theirs.logits).float(), atol=tolerance, rtol=0)


def test_logits_equal_those_of_a_cpu_in_fp32(fp32, device):
    alone = tiny_model()
    inputs = random_inputs(40)
    here, there = prefill(fp32, on(device, inputs)), prefill(alone, inputs)
    mask = inputs["attention_mask"]
    for _ in range(10):
        torch.testing.assert_close(here.logits.cpu(), there.logits, atol=1e-3, rtol=0)
        token_ids, mask = greedy(there.logits)[:, None], append_one(mask)
        here = decode_step(fp32, token_ids.to(device), here.cache, mask.to(device))
        there = decode_step(alone, token_ids, there.cache, mask)


def test_rows_of_a_batch_answer_as_each_does_alone(fp32, tokenizer, device):
    prompts = [PROMPT, "soup", "Who bakes the bread?"]
    together = generate_batch(fp32, tokenizer, prompts, max_new_tokens=12)
    alone = [generate(fp32, tokenizer, prompt, max_new_tokens=12) for prompt in prompts]
    assert [trace.generated_ids for trace in together] == [trace.generated_ids for trace in alone]


def test_a_padded_row_gives_the_logits_of_the_row_alone(fp32, tokenizer, device):
    batch = encode_batch(tokenizer, ["soup", "Who bakes the bread?"], device)
    together = prefill(fp32, batch).logits
    for row, prompt in enumerate(["soup", "Who bakes the bread?"]):
        alone = prefill(fp32, encode(tokenizer, prompt, device)).logits[0]
        torch.testing.assert_close(together[row], alone, atol=1e-4, rtol=0)


def test_a_static_cache_gives_the_logits_of_one_that_grows(fp32, device):
    inputs = on(device, random_inputs(9))
    room = StaticCache(config=fp32.config, max_cache_len=24)
    grown, fixed = prefill(fp32, inputs), prefill(fp32, inputs, cache=room)
    mask = inputs["attention_mask"]
    for _ in range(10):
        torch.testing.assert_close(fixed.logits, grown.logits, atol=1e-4, rtol=0)
        token_ids, mask = greedy(grown.logits)[:, None], append_one(mask)
        grown = decode_step(fp32, token_ids, grown.cache, mask)
        fixed = decode_step(fp32, token_ids, fixed.cache, mask)


def test_the_cache_lies_on_the_device_and_has_the_bytes_that_were_predicted(bf16, device):
    cache = prefill(bf16, on(device, random_inputs(33))).cache
    assert {cache.layers[0].keys.device.type, cache.layers[1].values.device.type} == {device.type}
    assert measured_kv_bytes(cache) == kv_cache_bytes(bf16.config, 33, dtype=torch.bfloat16)


def test_fp16_is_given_up_where_its_numbers_run_over(device):
    """What ``load`` asks of a GPU without bf16: a short forward whose logits are all numbers."""
    small, huge = tiny_model().to(device, torch.float16), tiny_model().to(device, torch.float16)
    with torch.no_grad():
        huge.lm_head.weight.mul_(10_000)
    assert has_finite_logits(small)
    assert not has_finite_logits(huge)
    assert has_finite_logits(huge.float())
