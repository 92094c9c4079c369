"""What `run` prints: every stage of the article's appendix, in order, from the run itself."""

import json

import pytest
import torch
from tests.tiny import tiny_tokenizer

from inside_generate import cached_length, generate, prefill, render_chat, report
from inside_generate.loop import cached_keys_and_values


@pytest.fixture(scope="module")
def shown(model, tmp_path_factory):
    """Run on a tiny model: the lines that were printed, the trace and the file."""
    lines = []
    path = tmp_path_factory.mktemp("report") / "new" / "run.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "load", lambda *_: (tiny_tokenizer(), model))
        trace = report.run("soup", "auto", "cpu", "auto", 5, path, lines.append)
    return "\n".join(lines), trace, json.loads(path.read_text(encoding="utf-8")), model


def test_the_stages_come_in_their_order(shown):
    text = shown[0]
    stages = [
        *("what runs", "messages", "rendered prompt", "inputs", "token → id"),
        *("prefill: outputs", "top 5", "next token", "decode", "result"),
    ]
    places = [text.index(f"── {stage} ") for stage in stages]
    assert places == sorted(places)


def test_messages_and_rendered_prompt_are_shown(shown, tokenizer):
    assert str({"role": "user", "content": "soup"}) in shown[0]
    assert render_chat(tokenizer, "soup") in shown[0]


def test_each_prompt_token_has_a_numbered_line(shown, tokenizer):
    text, trace, *_ = shown
    for number, token_id in enumerate(trace.prompt_ids, start=1):
        piece = tokenizer.convert_ids_to_tokens(token_id)
        assert f"{number:>4}  {piece!r} → {token_id}" in text.splitlines()


def test_shapes_of_inputs_outputs_and_last_logits_are_shown(shown):
    text, trace, _, model = shown
    length, vocabulary = len(trace.prompt_ids), model.config.vocab_size
    for shape in ([1, length], [1, length, vocabulary], [1, vocabulary]):
        assert str(shape) in text


def test_the_outputs_of_prefill_are_shown_with_their_numbers(shown):
    text, trace, _, model = shown
    ids = torch.tensor([trace.prompt_ids])
    step = prefill(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, True)
    keys, _ = cached_keys_and_values(step.cache, 0)
    lines = text[text.index("── prefill: outputs") : text.index("── top 5")].splitlines()
    names = ["output", "logits", "first row", "last logits", "KV cache", "layer 0 keys"]
    assert all(line.startswith(name) for name, line in zip(names, lines[1:-1], strict=True))
    assert lines[1].endswith("CausalLMOutputWithPast")
    for line, row in ((lines[3], step.all_logits[0, 0]), (lines[4], step.logits[0])):
        assert f"[{round(row[0].item(), 3)}, " in line
        assert f", {round(row[-1].item(), 3)}]" in line
    assert f"{cached_length(step.cache)} tokens in" in lines[5]
    assert str(list(keys.shape)) in lines[6]


def test_the_five_best_and_the_choice_are_shown(shown):
    text, trace, *_ = shown
    for candidate in trace.steps[0].top_k:
        assert report.candidate_line(candidate) in text
    assert f"{trace.steps[0].text!r} (id {trace.generated_ids[0]}), the highest logit" in text


def test_each_token_has_one_line_and_the_first_is_from_prefill(shown):
    text, trace, *_ = shown
    lines = [line for line in text.splitlines() if line.startswith("token ")]
    assert len(lines) == len(trace.steps)
    assert [line.endswith("(from prefill)") for line in lines] == [True] + [False] * (
        len(lines) - 1
    )
    for line, step in zip(lines, trace.steps, strict=True):
        assert f"token {step.number:>3} " in line
        assert str(list(step.input_shape)) in line
        assert f"id {step.token_id} " in line


def test_result_and_file_are_named(shown):
    text, trace, record, _ = shown
    assert str(trace.generated_ids) in text
    assert trace.stop_reason in text
    assert text.splitlines()[-1].endswith("run.json")
    assert record["generated_token_ids"] == trace.generated_ids


def test_the_run_is_the_plain_loop(shown, tokenizer):
    _, trace, record, model = shown
    plain = generate(model, tokenizer, "soup", max_new_tokens=5)
    assert trace.generated_ids == plain.generated_ids
    assert record["full_logits_shape"] == [1, len(trace.prompt_ids), model.config.vocab_size]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, 2], "[1, 2]"),
        (list(range(8)), str(list(range(8)))),
        (range(9), "[0, 1, 2, 3, …, 5, 6, 7, 8]"),
    ],
)
def test_long_values_are_abridged(values, text):
    assert report.abridged(values) == text
