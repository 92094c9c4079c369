"""The checks of `03_chat_template` accept a right answer and name the likely mistakes."""

import pytest

from inside_generate.exercises import chat_template as checks
from inside_generate.exercises.checking import RIGHT, UNTRIED


def turns(messages, form="<|im_start|>{role}\n{content}<|im_end|>\n"):
    return "".join(form.format(**turn) for turn in messages)


OPENING = "<|im_start|>assistant\n"


def ids(tokenizer, messages, opened=True, **how):
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=opened)
    return tokenizer(text, **how)["input_ids"]


TABLE = {
    (checks.check_turn_starts, "right"): (
        lambda m: len(m) + (m[0]["role"] != "system") + 1,
        RIGHT,
    ),
    (checks.check_turn_starts, "no default"): (lambda m: len(m) + 1, "the template writes one"),
    (checks.check_turn_starts, "always a default"): (lambda m: len(m) + 2, "only where"),
    (checks.check_turn_starts, "no opening"): (
        lambda m: len(m) + (m[0]["role"] != "system"),
        "generation prompt",
    ),
    (checks.check_turn_starts, "the messages"): (len, "writes more"),
    (checks.check_turn_starts, "the messages, and takes them away"): (
        lambda m: len([m.pop() for _ in list(m)]),
        "writes more",
    ),
    (checks.check_turn_starts, "a constant"): (lambda m: 3, "'content': 'soup'"),
    (checks.check_render, "right"): (lambda m: turns(m) + OPENING, RIGHT),
    (checks.check_render, "not opened"): (turns, "where does the assistant's begin"),
    (checks.check_render, "ended"): (
        lambda m: turns(m) + OPENING + "<|im_end|>",
        "the model ends it",
    ),
    (checks.check_render, "opening without a new line"): (
        lambda m: turns(m) + OPENING.strip(),
        "after the generation prompt too",
    ),
    (checks.check_render, "role and content joined"): (
        lambda m: turns(m, "<|im_start|>{role}{content}<|im_end|>\n") + OPENING,
        "stands a new line",
    ),
    (checks.check_render, "a space after the role"): (
        lambda m: turns(m, "<|im_start|>{role} {content}<|im_end|>\n") + OPENING,
        "not a space",
    ),
    (checks.check_render, "turns joined"): (
        lambda m: turns(m, "<|im_start|>{role}\n{content}<|im_end|>") + OPENING,
        "each turn ends with a new line",
    ),
    (checks.check_render, "pops"): (lambda m: m.pop()["text"], "KeyError"),
    (checks.check_two_steps, "right"): (
        lambda t, m: ids(t, m, add_special_tokens=False),
        RIGHT,
    ),
    (checks.check_two_steps, "the library's one step"): (
        lambda t, m: t.apply_chat_template(m, add_generation_prompt=True)["input_ids"],
        RIGHT,
    ),
    (checks.check_two_steps, "two BOS"): (ids, "stands there twice"),
    (checks.check_two_steps, "two BOS, not opened"): (
        lambda t, m: ids(t, m, opened=False),
        "stands there twice",
    ),
    (checks.check_two_steps, "not opened"): (
        lambda t, m: ids(t, m, opened=False, add_special_tokens=False),
        "where is the generation prompt",
    ),
    (checks.check_two_steps, "text"): (lambda t, m: "user soup", "not str"),
    (checks.check_two_steps, "everything"): (lambda t, m: t("soup"), "not BatchEncoding"),
    (checks.check_two_steps, "a constant"): (lambda t, m: [1, 2], "you return [1, 2]"),
}


def spells(tokenizer, text):
    return any(token.content in text for token in tokenizer.added_tokens_decoder.values())


SPELLING = {
    "right": (spells, RIGHT),
    "by ids": (
        lambda t, text: bool(set(t.added_tokens_decoder) & set(t(text)["input_ids"])),
        RIGHT,
    ),
    "bracket": (lambda t, text: "<" in text, "a bracket"),
    "bracket and bar": (lambda t, text: "<|" in text, "`<|` is no control token"),
    "one": (lambda t, text: "<|im_start|>" in text, "more than one"),
    "two": (lambda t, text: "<|im_start|>" in text or "<|im_end|>" in text, "more than two"),
    "special only": (
        lambda t, text: any(token in text for token in t.all_special_tokens),
        "found as whole strings too",
    ),
    "turned": (lambda t, text: not spells(t, text), "the other way round"),
    "always": (lambda t, text: True, "gives True"),
    "nothing": (lambda t, text: None, "is there a `return`"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)


@pytest.mark.parametrize("name", SPELLING)
def test_the_spelling_check_knows_right_from_likely_wrong(name, tokenizer):
    learners, said = SPELLING[name]
    assert said in checks.check_spells_control_token(learners, tokenizer)


def test_an_untouched_spelling_cell_is_told_so(tokenizer):
    assert checks.check_spells_control_token(..., tokenizer) == UNTRIED
    assert checks.check_spells_control_token(lambda *_: ..., tokenizer) == UNTRIED


@pytest.mark.parametrize("garbage", [7, "a word", lambda: 1, lambda *_: object()])
def test_garbage_gives_a_hint_and_no_traceback(garbage, tokenizer):
    for check in dict.fromkeys(check for check, _ in TABLE):
        assert check(garbage).startswith("Not yet")
    assert checks.check_spells_control_token(garbage, tokenizer).startswith("Not yet")
