"""The checks accept a right answer and name the likely mistakes."""

import copy

import pytest
import torch

from inside_generate import append_one, decode_step, encode, generate, greedy, prefill
from inside_generate.exercises import decode, whole_loop, whole_path
from inside_generate.exercises import prefill as prefill_checks
from inside_generate.exercises.checking import RIGHT, UNTRIED, check_table


@pytest.fixture
def inputs(tokenizer):
    return encode(tokenizer, "soup")


def most_surprising(logits, ids):
    given = logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    return given.argmin().item() + 1


def decode_loop(model, inputs, steps):
    step, mask = prefill(model, inputs), inputs["attention_mask"]
    ids = [greedy(step.logits)]
    for _ in range(steps):
        mask = append_one(mask)
        step = decode_step(model, ids[-1][:, None], step.cache, mask)
        ids.append(greedy(step.logits))
    return torch.cat(ids).tolist()


def mask_that_does_not_grow(model, inputs, steps):
    step = prefill(model, inputs)
    return decode_step(model, greedy(step.logits)[:, None], step.cache, inputs["attention_mask"])


def branch(model, step, mask, token_ids):
    return decode_step(model, token_ids, copy.deepcopy(step.cache), append_one(mask)).logits


def uncached(model, prompt_ids, count):
    ids = list(prompt_ids)
    for _ in range(count):
        ids.append(model(torch.tensor([ids])).logits[0, -1].argmax().item())
    return ids[len(prompt_ids) :]


TABLE = {
    (whole_path.check_forward_passes, "right"): (lambda t: (1, t - 1), RIGHT),
    (whole_path.check_forward_passes, "one decode too many"): (
        lambda t: (1, t),
        "token 1 comes out",
    ),
    (whole_path.check_forward_passes, "prefill a token"): (lambda t: (t, t - 1), "whole prompt"),
    (whole_path.check_forward_passes, "one number"): (lambda t: t, "as a pair"),
    (whole_path.check_should_stop, "both at once"): (
        lambda ids, eos, limit: ids[-1] in eos and len(ids) >= limit,
        "`or`, not `and`",
    ),
    (whole_path.check_should_stop, "equal to the set"): (
        lambda ids, eos, limit: ids[-1] == eos,
        "is `in` it",
    ),
    (whole_path.check_should_stop, "right"): (
        lambda ids, eos, limit: ids[-1] in eos or len(ids) >= limit,
        RIGHT,
    ),
    (whole_path.check_should_stop, "no limit"): (
        lambda ids, eos, limit: ids[-1] in eos,
        "limit is missing",
    ),
    (whole_path.check_should_stop, "no EOS"): (lambda ids, eos, limit: len(ids) >= limit, "EOS is"),
    (whole_path.check_should_stop, "EOS compared with the set"): (
        lambda ids, eos, limit: ids[-1] == eos or len(ids) >= limit,
        "is the last id `in` the set",
    ),
    (whole_path.check_should_stop, "off by one"): (
        lambda ids, eos, limit: ids[-1] in eos or len(ids) > limit,
        "one token too late",
    ),
    (whole_path.check_should_stop, "equal"): (
        lambda ids, eos, limit: ids[-1] in eos or len(ids) == limit,
        RIGHT,
    ),
    (whole_path.check_should_stop, "EOS anywhere"): (
        lambda ids, eos, limit: bool(eos & set(ids)) or len(ids) >= limit,
        "only the last id counts",
    ),
    (prefill_checks.check_logits_shape, "right"): (lambda b, n, v: (b, n, v), RIGHT),
    (prefill_checks.check_logits_shape, "last row"): (
        lambda b, n, v: (b, v),
        "last position was taken",
    ),
    (prefill_checks.check_logits_shape, "no batch"): (lambda b, n, v: (n, v), "where is B"),
    (prefill_checks.check_next_token, "right"): (lambda z: z[:, -1].argmax(-1), RIGHT),
    (prefill_checks.check_next_token, "first position"): (
        lambda z: z[:, 0].argmax(-1),
        "first position",
    ),
    (prefill_checks.check_next_token, "all positions"): (lambda z: z.argmax(-1), "which axis"),
    (prefill_checks.check_next_token, "a constant"): (lambda z: torch.tensor([5, 6]), "rows"),
    (prefill_checks.check_next_token, "a column"): (
        lambda z: z[:, -1].argmax(-1, keepdim=True),
        "one id a row",
    ),
    (prefill_checks.check_next_token, "nothing"): (lambda z: None, "is there a `return`"),
    (prefill_checks.check_next_token, "words"): (lambda z: "two", "return ids"),
    (prefill_checks.check_next_token, "scores"): (lambda z: z[:, -1].amax(-1), "return ids"),
    (prefill_checks.check_most_surprising, "a constant"): (lambda z, ids: 2, "Not yet"),
    (prefill_checks.check_most_surprising, "raw logits"): (
        lambda z, ids: z[0, :-1].gather(1, ids[0, 1:, None]).argmin().item() + 1,
        "logits of different rows",
    ),
    (prefill_checks.check_most_surprising, "nothing"): (lambda z, ids: None, "is there a `return`"),
    (prefill_checks.check_next_token, "everything"): (lambda z: z.argmax(), "which axis"),
    (prefill_checks.check_most_surprising, "right"): (most_surprising, RIGHT),
    (prefill_checks.check_most_surprising, "the position"): (
        lambda z, ids: most_surprising(z, ids) - 1,
        "not the token",
    ),
    (prefill_checks.check_most_surprising, "the most expected"): (
        lambda z, ids: most_surprising(-z, ids),
        "the most expected one",
    ),
    (prefill_checks.check_most_surprising, "a token's own row"): (
        lambda z, ids: z[0].log_softmax(-1).gather(1, ids[0, :, None]).argmin().item(),
        "in which row",
    ),
    (prefill_checks.check_most_surprising, "the id"): (
        lambda z, ids: ids[0, most_surprising(z, ids)],
        "Return the token's index",
    ),
    (decode.check_cache_length, "right"): (lambda n, t: n + t - 1, RIGHT),
    (decode.check_cache_length, "last token counted"): (lambda n, t: n + t, "one too many"),
    (decode.check_cache_length, "prompt forgotten"): (lambda n, t: t - 1, "the prompt is"),
    (whole_loop.check_stop_reason, "right"): ("eos", RIGHT),
    (whole_loop.check_stop_reason, "limit"): ("max_new_tokens", "both are true"),
    (whole_loop.check_stop_reason, "word"): ("full stop", "'full stop'"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)


def test_a_function_that_only_returns_dots_is_untouched(model, inputs):
    def dots(*_):
        return ...

    for check in (
        whole_path.check_forward_passes,
        whole_path.check_should_stop,
        prefill_checks.check_logits_shape,
        prefill_checks.check_next_token,
        prefill_checks.check_most_surprising,
        decode.check_cache_length,
    ):
        assert check(dots) == UNTRIED
    assert decode.check_decode_loop(dots, model, inputs) == UNTRIED
    assert decode.check_branch(dots, model, inputs) == UNTRIED
    assert whole_loop.check_run_kv_bytes(dots, model.config) == UNTRIED
    assert whole_loop.check_uncached_generate(dots, model, [1], [2]) == UNTRIED


def test_an_error_in_the_learners_function_becomes_a_hint():
    assert "ZeroDivisionError" in decode.check_cache_length(lambda n, t: 1 // 0)
    assert "TypeError" in prefill_checks.check_next_token(lambda: 1)


def test_a_value_where_a_function_is_asked_for_is_told_so():
    assert "not for 7" in check_table(7, {(1,): 1}, {})


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (decode_loop, RIGHT),
        (mask_that_does_not_grow, "the mask has to grow"),
        (lambda *all: decode_loop(*all)[1:], "token 1"),
        (lambda *all: decode_loop(*all)[:-1], "one token too few"),
        (lambda *all: [0] * 5, "the ids should be"),
        (lambda *all: None, "is there a `return`"),
        (lambda *all: "ids", "return a list of ids"),
    ],
)
def test_the_decode_loops_check(model, inputs, loop, said):
    assert said in decode.check_decode_loop(loop, model, inputs)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (branch, RIGHT),
        (
            lambda model, step, mask, ids: (
                decode_step(model, ids, step.cache, append_one(mask)).logits
            ),
            "copy it",
        ),
        (
            lambda model, step, mask, ids: (
                decode_step(model, ids, copy.deepcopy(step.cache), mask).logits
            ),
            "attention_mask must be",
        ),
        (lambda model, step, mask, ids: step.logits, "does the mask grow"),
        (lambda model, step, mask, ids: None, "is there a `return`"),
        (
            lambda model, step, mask, ids: decode_step(
                model, ids, copy.deepcopy(step.cache), append_one(mask)
            ),
            "return the logits alone",
        ),
    ],
)
def test_the_branchs_check(model, inputs, function, said):
    assert said in decode.check_branch(function, model, inputs)


def test_the_kv_bytes_check(model):
    config = model.config  # 2 layers, 4 query heads on 2 KV heads of 16 numbers
    right = lambda c, n, t: 2 * 2 * 2 * 16 * 2 * (n + t - 1)  # noqa: E731
    assert whole_loop.check_run_kv_bytes(right, config) == RIGHT
    for wrong, said in (
        (lambda c, n, t: right(c, n, t + 1), "one token too many"),
        (lambda c, n, t: right(c, n, t) // 2, "two tensors"),
        (lambda c, n, t: right(c, n, t) * 2, "KV heads, not query heads"),
    ):
        assert said in whole_loop.check_run_kv_bytes(wrong, config)


def test_the_uncached_loops_check(model, tokenizer):
    trace = generate(model, tokenizer, "soup", max_new_tokens=4, eos_token_ids=())
    check = whole_loop.check_uncached_generate
    arguments = (model, trace.prompt_ids, trace.generated_ids)
    assert check(uncached, *arguments) == RIGHT
    assert "without the prompt" in check(lambda m, p, n: p + uncached(m, p, n), *arguments)
    assert "you return 3" in check(lambda m, p, n: uncached(m, p, n - 1), *arguments)
    assert "part at token 1" in check(lambda m, p, n: [0] * n, *arguments)


def test_an_uncached_loop_that_takes_the_other_of_two_tied_tokens_is_right(model, tokenizer):
    trace = generate(model, tokenizer, "soup", max_new_tokens=4, eos_token_ids=())
    second = trace.steps[2].top_k[1].token_id
    other = [*trace.generated_ids[:2], second, 0]
    check = whole_loop.check_uncached_generate
    arguments = (lambda *_: other, model, trace.prompt_ids, trace.generated_ids)
    assert "part at token 3" in check(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_loop, "logit_tolerance", lambda _: 1e9)
        assert check(*arguments) == RIGHT
