"""The checks of `02_autoregression` accept a right answer and name the likely mistakes."""

import pytest
import torch

from inside_generate.exercises import autoregression as checks
from inside_generate.exercises.checking import RIGHT

INFINITY = float("inf")


def log_p(logits, ids):
    rows = logits[0, :-1].log_softmax(-1)
    return rows.gather(1, ids[0, 1:, None])[:, 0]


def first_moved(forward, ids, k, new_id):
    changed = ids.clone()
    changed[0, k] = new_id
    return (forward(changed) != forward(ids)).any(-1)[0].nonzero()[0].item()


def first_moved_in_place(forward, ids, k, new_id):
    before = forward(ids)
    ids[0, k] = new_id
    return (forward(ids) != before).any(-1)[0].nonzero()[0].item()


TABLE = {
    (checks.check_tokens_read, "right"): (lambda n, t: t * n + t * (t - 1) // 2, RIGHT),
    (checks.check_tokens_read, "no growth"): (lambda n, t: t * n, "it grows"),
    (checks.check_tokens_read, "one too many"): (
        lambda n, t: t * n + t * (t + 1) // 2,
        "part of its own input",
    ),
    (checks.check_tokens_read, "last input"): (lambda n, t: n + t - 1, "the last input"),
    (checks.check_tokens_read, "once"): (lambda n, t: n + t, "read again"),
    (checks.check_tokens_read, "words"): (lambda n, t: "many", "gives 'many'"),
    (checks.check_causal_mask, "right"): (
        lambda n: torch.full((n, n), -INFINITY).triu(1),
        RIGHT,
    ),
    (checks.check_causal_mask, "right in 16 bits"): (
        lambda n: torch.full((n, n), -INFINITY, dtype=torch.bfloat16).triu(1),
        RIGHT,
    ),
    (checks.check_causal_mask, "transposed"): (
        lambda n: torch.full((n, n), -INFINITY).tril(-1),
        "the other way round",
    ),
    (checks.check_causal_mask, "diagonal"): (
        lambda n: torch.full((n, n), -INFINITY).triu(),
        "look at itself",
    ),
    (checks.check_causal_mask, "ones"): (lambda n: torch.ones(n, n).tril(), "weight 0"),
    (checks.check_causal_mask, "ones above"): (lambda n: torch.ones(n, n).triu(1), "weight 0"),
    (checks.check_causal_mask, "yes and no"): (
        lambda n: torch.ones(n, n, dtype=torch.bool).tril(),
        "yes and no",
    ),
    (checks.check_causal_mask, "not a number"): (
        lambda n: torch.ones(n, n).triu(1) * -INFINITY,
        "NaN",
    ),
    (checks.check_causal_mask, "a row"): (lambda n: torch.zeros(n), "return a tensor [3, 3]"),
    (checks.check_causal_mask, "a list"): (lambda n: [[0.0] * n] * n, "M is not"),
    (checks.check_causal_mask, "all zero"): (lambda n: torch.zeros(n, n), "M is not"),
    (checks.check_causal_mask, "nothing"): (lambda n: None, "is there a `return`"),
    (checks.check_log_probability, "right"): (lambda z, i: log_p(z, i).sum().item(), RIGHT),
    (checks.check_log_probability, "right as a tensor"): (lambda z, i: log_p(z, i).sum(), RIGHT),
    (checks.check_log_probability, "not shifted"): (
        lambda z, i: z[0].log_softmax(-1).gather(1, i[0, :, None]).sum(),
        "shift the ids",
    ),
    (checks.check_log_probability, "logits"): (
        lambda z, i: z[0, :-1].gather(1, i[0, 1:, None]).sum(),
        "raw logits",
    ),
    (checks.check_log_probability, "probability"): (
        lambda z, i: log_p(z, i).sum().exp(),
        "its logarithm is asked for",
    ),
    (checks.check_log_probability, "sum of probabilities"): (
        lambda z, i: log_p(z, i).exp().sum(),
        "they multiply",
    ),
    (checks.check_log_probability, "mean"): (lambda z, i: log_p(z, i).mean(), "the mean"),
    (checks.check_log_probability, "loss"): (lambda z, i: -log_p(z, i).sum(), "the sign"),
    (checks.check_log_probability, "one a token"): (log_p, "add them up"),
    (checks.check_log_probability, "a constant"): (lambda z, i: -1.0, "you return -1.0"),
    (checks.check_log_probability, "words"): (lambda z, i: "low", "return one number"),
    (checks.check_first_moved, "right"): (first_moved, RIGHT),
    (checks.check_first_moved, "always k"): (lambda f, i, k, new: k, "looks ahead"),
    (checks.check_first_moved, "a constant"): (lambda f, i, k, new: 0, "you return 0"),
    (checks.check_first_moved, "in place"): (first_moved_in_place, "work on a copy"),
    (checks.check_first_moved, "all"): (lambda f, i, k, new: [k, k + 1], "one position"),
    (checks.check_first_moved, "error"): (lambda f, i, k, new: f(k), "your function raised"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)


@pytest.mark.parametrize(
    "check", dict.fromkeys(check for check, _ in TABLE), ids=lambda check: check.__name__
)
@pytest.mark.parametrize("garbage", [7, "a word", lambda: 1, lambda *_: object()])
def test_garbage_gives_a_hint_and_no_traceback(check, garbage):
    assert check(garbage).startswith("Not yet")
