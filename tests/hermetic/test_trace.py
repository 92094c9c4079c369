"""The record of a run: plain, frozen, and the same after a journey through JSON."""

import dataclasses
import json

import pytest
import torch

from inside_generate import generate
from inside_generate.trace import Trace, token_text, top_candidates

PROMPTS = {
    "string": "What's for lunch today?",
    "messages": [
        {"role": "system", "content": "Antworte kurz: ja/nein – 🙂"},
        {"role": "user", "content": "今天午饭吃什么?"},
    ],
}


@pytest.fixture(params=list(PROMPTS))
def trace(request, model, tokenizer):
    return generate(model, tokenizer, PROMPTS[request.param], max_new_tokens=5)


def test_a_trace_survives_json_unchanged(trace):
    assert Trace.from_dict(json.loads(json.dumps(trace.to_dict()))) == trace


def test_a_trace_is_read_from_a_record_that_also_tells_of_the_machine(trace):
    record = {"schema_version": 1, "gpu_name": None, **trace.to_dict()}
    assert Trace.from_dict(record) == trace


def test_a_trace_and_its_steps_cannot_be_changed(trace):
    for record, name in ((trace, "text"), (trace.steps[0], "token_id")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, "other")


def test_ids_of_prompt_and_answer_are_flat_lists_of_int(trace):
    for ids in (trace.prompt_ids, trace.generated_ids):
        assert isinstance(ids, list)
        assert all(type(index) is int for index in ids)
    assert trace.generated_ids == [step.token_id for step in trace.steps]


def test_the_record_says_the_same_number_wherever_it_says_it(trace, model):
    record = trace.to_dict()
    length, vocabulary = len(trace.prompt_ids), model.config.vocab_size
    assert record["input_ids"] == [trace.prompt_ids]
    assert record["input_shape"] == [1, length]
    assert record["prompt_tokens"] == length
    assert record["full_logits_shape"] == [1, 1, vocabulary]
    assert record["last_logits_shape"] == [1, vocabulary]
    assert record["generated_tokens"] == len(record["generated_token_ids"]) == 5
    assert record["top_k"] == record["steps"][0]["top_k"]
    assert record["max_new_tokens"] == 5
    assert record["eos_token_id"] == [model.config.eos_token_id]
    assert record["dtype"] == "float32"
    assert record["device"] == "cpu"


def test_the_record_keeps_the_prompt_as_it_was_given(trace):
    assert trace.to_dict()["prompt"] in PROMPTS.values()
    assert trace.rendered_prompt.endswith("<|im_start|>assistant\n")


def test_changing_the_callers_messages_afterwards_does_not_change_the_trace(model, tokenizer):
    messages = [{"role": "user", "content": "soup"}]
    trace = generate(model, tokenizer, messages, max_new_tokens=1)
    messages[0]["content"] = "bread"
    messages.append({"role": "user", "content": "more"})
    assert trace.prompt == [{"role": "user", "content": "soup"}]


def test_a_greedy_token_is_the_first_of_its_steps_candidates(trace):
    for step in trace.steps:
        assert step.token_id == step.top_k[0].token_id
        assert step.text == step.top_k[0].text


def test_candidates_are_the_five_highest_logits_best_first(tokenizer):
    logits = torch.randn(352, generator=torch.Generator().manual_seed(0))
    candidates = top_candidates(tokenizer, logits)
    order = logits.argsort(descending=True)[:5].tolist()
    assert [candidate.token_id for candidate in candidates] == order
    assert [candidate.logit for candidate in candidates] == logits[order].tolist()
    assert [c.text for c in candidates] == [tokenizer.decode([index]) for index in order]


def test_a_vocabulary_of_three_has_three_candidates(tokenizer):
    assert len(top_candidates(tokenizer, torch.tensor([1.0, 3.0, 2.0]))) == 3


@pytest.mark.parametrize("equal", [[7, 8], [3, 90, 200], list(range(50, 300))])
def test_of_equal_logits_the_lowest_id_comes_first_as_in_greedy_choice(tokenizer, equal):
    logits = torch.full((320,), -1.0)
    logits[equal] = 18.0
    candidates = top_candidates(tokenizer, logits)
    assert [candidate.token_id for candidate in candidates[: len(equal)]] == equal[:5]
    assert candidates[0].token_id == logits.argmax().item()


def test_bf16_candidates_carry_the_exact_value_of_their_logit(tokenizer):
    logits = torch.tensor([18.03, 1.0, 2.0], dtype=torch.bfloat16)
    assert top_candidates(tokenizer, logits)[0].logit == 18.0


def test_the_text_of_a_control_token_is_its_name(tokenizer):
    assert token_text(tokenizer, tokenizer.eos_token_id) == "<|im_end|>"


def test_the_text_of_a_part_of_a_character_is_the_replacement_sign(tokenizer):
    ids = tokenizer("🙂", add_special_tokens=False)["input_ids"]
    assert len(ids) == 4, "this tokenizer has never seen it: one id a byte"
    assert [token_text(tokenizer, index) for index in ids] == ["\ufffd"] * 4


def test_the_text_of_a_row_that_stands_for_nothing_is_empty(tokenizer):
    assert token_text(tokenizer, len(tokenizer)) == ""


def test_the_text_of_a_run_joins_characters_that_are_spread_over_ids(model, tokenizer):
    wanted = "bread 🙂 今天"
    ids = tokenizer(wanted, add_special_tokens=False)["input_ids"]
    said = iter([*ids, tokenizer.eos_token_id])
    trace = generate(model, tokenizer, "soup", sampler=lambda _: torch.tensor([next(said)]))
    assert trace.text == wanted
    assert "".join(step.text for step in trace.steps) != wanted


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_the_number_of_candidates_is_a_count(tokenizer, k):
    with pytest.raises(ValueError, match=f"k must be .* at least 1, not {k!r}"):
        top_candidates(tokenizer, torch.ones(4), k)


@pytest.mark.parametrize(
    ("logits", "found"), [(torch.ones(1, 4), "1, 4"), (torch.ones(0), "0"), ([1.0], "'list'")]
)
def test_candidates_come_from_one_row_of_logits(tokenizer, logits, found):
    with pytest.raises(ValueError, match=rf"one row of a tensor, .* not \[{found}\]"):
        top_candidates(tokenizer, logits)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record.pop("steps"), "KeyError: 'steps'"),
        (lambda record: record["steps"].clear(), "it has no steps"),
        (lambda record: record["steps"][0].pop("phase"), "'phase'"),
        (lambda record: record["steps"][0].update(more=1), "'more'"),
        (lambda record: record.update(input_ids=[]), "IndexError"),
        (lambda record: record.update(eos_token_id=3), "'int' object is not iterable"),
    ],
)
def test_what_is_no_record_of_a_run_is_refused_with_the_part_that_is_wrong(trace, change, said):
    record = trace.to_dict()
    change(record)
    with pytest.raises(ValueError, match=f"no record of a run.*{said}"):
        Trace.from_dict(record)


@pytest.mark.parametrize("record", [None, 3, "x", [], {}])
def test_what_is_no_record_at_all_is_refused(record):
    with pytest.raises(ValueError, match="no record of a run, as to_dict"):
        Trace.from_dict(record)
