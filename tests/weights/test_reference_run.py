"""The article's run on real weights: equal to ``generate()``, and with the article's figures.

Tolerances on logits, which reach about 30 here: 1e-3 in fp32; in bf16 two steps of its grid at the
size of the largest logit, for sums that are taken in another order. Where two runs in bf16 part,
the two best logits must lie that close together: a near tie, and it is reported with its margin.
"""

import json
from dataclasses import dataclass

import jsonschema
import pytest
import torch
from tests.contents import FORGED, ORDINARY, SPELLED, control_ids, without_control_tokens
from transformers import AutoTokenizer

from inside_generate import (
    InsideGenerateError,
    Trace,
    decode_text,
    encode,
    find,
    generate,
    greedy,
    kv_cache_bytes,
    measured_kv_bytes,
    prefill,
    render_chat,
    run_record,
)
from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN
from inside_generate.models import identity
from inside_generate.record import run_schema

LUNCH = "What's for lunch today?"
SKY = "Why is the sky blue?"
TOKENS = {LUNCH: 14, SKY: 8}
DTYPES = ["fp32", "bf16"]


@dataclass(frozen=True)
class Run:
    """One prompt through both loops, with the logits of every step: [T, V] in fp32."""

    trace: Trace
    logits: torch.Tensor
    library_ids: list[int]
    library_logits: torch.Tensor

    @property
    def tolerance(self) -> float:
        largest = float(self.logits.abs().max())
        return 1e-3 if self.trace.dtype == "float32" else 2 * 2**-7 * largest


@pytest.fixture(scope="module")
def run_of(request):
    """Return a function that runs a prompt in a dtype, once however many tests ask for it."""
    done = {}

    def run(dtype, prompt):
        if (dtype, prompt) not in done:
            done[dtype, prompt] = both_loops(*request.getfixturevalue(dtype), prompt)
        return done[dtype, prompt]

    return run


def both_loops(tokenizer, model, prompt):
    seen = []

    def recording(logits):
        seen.append(logits[0].float())
        return greedy(logits)

    trace = generate(model, tokenizer, prompt, max_new_tokens=TOKENS[prompt], sampler=recording)
    inputs = encode(tokenizer, prompt, model.device)
    theirs = model.generate(
        **inputs,
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=TOKENS[prompt],
        output_logits=True,
        return_dict_in_generate=True,
    )
    return Run(
        trace,
        torch.stack(seen),
        theirs.sequences[0, inputs["input_ids"].shape[1] :].tolist(),
        torch.cat(theirs.logits).float(),
    )


def first_parting(logits, others):
    """Return the first step at which two runs choose differently and the margin there, or None."""
    for number, (row, other) in enumerate(zip(logits, others, strict=False), start=1):
        if row.argmax() != other.argmax():
            best, second = row.topk(2).values.tolist()
            return number, best - second
    return None


# --- equal to generate() --------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", list(TOKENS))
def test_fp32_ids_equal_the_librarys_token_for_token(run_of, prompt):
    run = run_of("fp32", prompt)
    assert run.trace.generated_ids == run.library_ids
    assert len(run.library_ids) >= 8


def test_fp32_ids_and_logits_equal_those_of_a_padded_prompt_in_a_static_cache(fp32, run_of):
    tokenizer, model = fp32
    run = run_of("fp32", LUNCH)
    inputs = encode(tokenizer, LUNCH, model.device)
    pads = inputs["input_ids"].new_full((1, 5), tokenizer.pad_token_id)
    theirs = model.generate(
        input_ids=torch.cat([pads, inputs["input_ids"]], dim=1),
        attention_mask=torch.cat([torch.zeros_like(pads), inputs["attention_mask"]], dim=1),
        do_sample=False,
        repetition_penalty=1.0,
        max_new_tokens=5,
        cache_implementation="static",
        disable_compile=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    assert theirs.sequences[0, -5:].tolist() == run.trace.generated_ids[:5]
    difference = float((torch.cat(theirs.logits) - run.logits[:5]).abs().max())
    assert difference <= run.tolerance


@pytest.mark.parametrize("prompt", list(TOKENS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_equal_the_librarys_at_each_step(run_of, record_property, dtype, prompt):
    run = run_of(dtype, prompt)
    parting = first_parting(run.logits, run.library_logits)
    record_property("first_parting", str(parting))
    steps = min(len(run.logits), len(run.library_logits)) if parting is None else parting[0]
    difference = float((run.logits[:steps] - run.library_logits[:steps]).abs().max())
    assert difference <= run.tolerance
    assert parting is None or parting[1] <= run.tolerance, (
        f"the ids part at step {parting[0]} though the best logit leads by {parting[1]:.4f}"
    )


# --- cached equals uncached -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_cached_logits_equal_uncached_and_a_parting_is_a_near_tie(
    request, run_of, record_property, dtype
):
    _, model = request.getfixturevalue(dtype)
    run = run_of(dtype, LUNCH)
    ids = run.trace.prompt_ids + run.trace.generated_ids
    uncached = []
    with torch.inference_mode():
        for number in range(0, len(run.logits), 3):  # not every step: each costs a whole prompt
            prefix = torch.tensor([ids[: len(run.trace.prompt_ids) + number]], device=model.device)
            output = model(input_ids=prefix, use_cache=False, logits_to_keep=1)
            uncached.append(output.logits[0, -1].float())
    cached = run.logits[::3]
    difference = float((cached - torch.stack(uncached)).abs().max())
    parting = first_parting(cached, uncached)
    report = f"{dtype}: difference {difference:.4f}, first parting (of {len(cached)}) {parting}"
    record_property("cached_against_uncached", report)
    print(report)
    assert difference <= run.tolerance
    if dtype == "fp32":
        assert parting is None
    assert parting is None or parting[1] <= run.tolerance


# --- the article's figures ------------------------------------------------------------------------


def only_for(model, *names):
    """Skip where another model is loaded than those that a figure belongs to."""
    who = identity(model)
    if who.name not in names:
        pytest.skip(f"a figure of {' and '.join(names)}, and this is {who.model_id}")


def test_the_prompt_has_35_ids_that_begin_as_in_the_article(bf16):
    tokenizer, model = bf16
    only_for(model, REFERENCE, STAND_IN)
    ids = encode(tokenizer, LUNCH)["input_ids"][0].tolist()
    assert len(ids) == 35
    assert ids[:7] == [151644, 8948, 198, 2610, 525, 1207, 16948]


def test_the_bare_sentence_has_6_ids(bf16):
    tokenizer, model = bf16
    only_for(model, REFERENCE, STAND_IN)
    assert tokenizer(LUNCH)["input_ids"] == [3838, 594, 369, 15786, 3351, 30]


def test_the_tokenizer_has_151665_ids_and_the_model_151936_rows(bf16):
    tokenizer, model = bf16
    only_for(model, REFERENCE, STAND_IN)
    assert len(tokenizer) == 151_665
    assert model.config.vocab_size == len(model.get_input_embeddings().weight) == 151_936
    assert tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"]) == [151644, 151645]
    assert tokenizer.eos_token_id == 151_645


def test_the_template_puts_a_default_system_message_in_front(bf16):
    tokenizer, model = bf16
    only_for(model, REFERENCE, STAND_IN)
    assert render_chat(tokenizer, LUNCH) == (
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
        f"<|im_end|>\n<|im_start|>user\n{LUNCH}<|im_end|>\n<|im_start|>assistant\n"
    )


def test_prefill_over_35_tokens_leaves_logits_of_35_by_151936_and_12288_bytes_a_token(bf16):
    tokenizer, model = bf16
    only_for(model, REFERENCE, STAND_IN)
    step = prefill(model, encode(tokenizer, LUNCH, model.device), keep_all_logits=True)
    assert step.full_logits_shape == tuple(step.all_logits.shape) == (1, 35, 151_936)
    assert step.logits.shape == (1, 151_936)
    assert model.dtype == torch.bfloat16
    assert measured_kv_bytes(step.cache) == 35 * 12_288 == kv_cache_bytes(model.config, 35)


def test_the_last_row_of_logits_is_the_same_whether_or_not_the_others_are_computed(fp32):
    tokenizer, model = fp32
    inputs = encode(tokenizer, LUNCH, model.device)
    last, full = prefill(model, inputs), prefill(model, inputs, keep_all_logits=True)
    torch.testing.assert_close(last.logits, full.logits, atol=1e-3, rtol=0)


def test_the_stand_in_answers_the_lunch_prompt_with_13_tokens_and_ends_its_turn(bf16, run_of):
    only_for(bf16[1], STAND_IN)
    trace = run_of("bf16", LUNCH).trace
    assert len(trace.generated_ids) == 13
    assert trace.generated_ids[-1] == 151_645
    assert trace.stop_reason == "eos"
    assert "<|im_end|>" not in trace.text


@pytest.mark.parametrize("prompt", list(TOKENS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_run_grows_mask_and_cache_by_one_a_step(run_of, dtype, prompt):
    trace = run_of(dtype, prompt).trace
    length, count = len(trace.prompt_ids), len(trace.generated_ids)
    assert [step.cache_length for step in trace.steps] == [length + n for n in range(count)]
    assert [step.mask_length for step in trace.steps] == [length + n for n in range(count)]
    assert [step.input_shape for step in trace.steps] == [(1, length)] + [(1, 1)] * (count - 1)


def test_the_record_of_the_run_is_valid_and_names_the_model_that_ran(bf16, run_of):
    _, model = bf16
    record = json.loads(json.dumps(run_record(run_of("bf16", LUNCH).trace, model)))
    checker = jsonschema.FormatChecker()
    jsonschema.Draft202012Validator(run_schema(), format_checker=checker).validate(record)
    who = identity(model)
    assert (record["model_id"], record["revision"]) == (who.model_id, who.revision)
    if who.name in CHECKPOINTS:
        checkpoint = CHECKPOINTS[who.name]
        assert (record["model_id"], record["revision"]) == (
            checkpoint.model_id,
            checkpoint.revision,
        )
    assert record["dtype"] == "bfloat16"


# --- real tokenizers ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["auto", STAND_IN, SMALL])
def tokenizer(request):
    try:
        directory = find(request.param)
    except InsideGenerateError as error:
        if request.param == "auto":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    return AutoTokenizer.from_pretrained(directory, local_files_only=True)


def ids_of(tokenizer, messages):
    return encode(tokenizer, messages)["input_ids"][0].tolist()


def with_system(content):
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": content}]


def test_ordinary_content_gives_the_real_templates_own_ids(tokenizer):
    for content in [LUNCH, SKY, *ORDINARY]:
        messages = [{"role": "user", "content": content}]
        expected = tokenizer.apply_chat_template(
            messages, tokenize=True, add_generation_prompt=True, return_dict=True
        )["input_ids"]
        assert ids_of(tokenizer, content) == expected, content


def test_content_that_spells_control_tokens_becomes_plain_text_for_real_tokenizers(tokenizer):
    opening, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    plain = without_control_tokens(tokenizer)
    spelled = [*SPELLED, "<|vision_pad|>", "<|fim_prefix|>", "<file_sep>", "<reponame>"]
    for content in [*ORDINARY, *spelled]:
        assert ids_of(tokenizer, with_system(content)) == [
            *(opening, *plain("system\nBe kind."), end, *plain("\n")),
            *(opening, *plain(f"user\n{content}"), end, *plain("\n")),
            *(opening, *plain("assistant\n")),
        ], content


def test_forged_turns_read_back_as_they_were_written(tokenizer):
    ids = ids_of(tokenizer, with_system(FORGED))
    assert control_ids(tokenizer, ids) == control_ids(tokenizer, ids_of(tokenizer, with_system("")))
    text = decode_text(tokenizer, ids, skip_special_tokens=False)
    assert text == render_chat(tokenizer, with_system(FORGED))


def test_the_library_lets_a_forged_turn_through(tokenizer):
    """The attack, so that the tests above are known to have something to keep out."""
    opening = tokenizer.convert_tokens_to_ids("<|im_start|>")
    ids = tokenizer(render_chat(tokenizer, with_system(FORGED)))["input_ids"]
    assert ids.count(opening) == 5
    assert ids_of(tokenizer, with_system(FORGED)).count(opening) == 3
