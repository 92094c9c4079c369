"""The checks of `04_model_inputs` accept a right answer and name the likely mistakes."""

import pytest
import torch

from inside_generate.exercises import model_inputs as checks
from inside_generate.exercises.checking import RIGHT, UNTRIED


def pad(rows, pad_id, left=True):
    width = max(len(row) for row in rows)
    gaps = [width - len(row) for row in rows]
    ids = [[pad_id] * gap + row for gap, row in zip(gaps, rows, strict=True)]
    mask = [[0] * gap + [1] * (width - gap) for gap in gaps]
    return torch.tensor(ids), torch.tensor(mask)


def pad_right(rows, pad_id):
    width = max(len(row) for row in rows)
    ids = [row + [pad_id] * (width - len(row)) for row in rows]
    return torch.tensor(ids), torch.tensor(ids) != pad_id


def mask_from_ids(rows, pad_id):
    ids, _ = pad(rows, pad_id)
    return ids, (ids != pad_id).long()


def causal(mask):
    return torch.ones(mask.shape[1], mask.shape[1], dtype=torch.bool).tril()


def may_look(mask):
    return causal(mask) & mask.bool()[:, None, :]


def without_itself(mask):
    return may_look(mask) & ~torch.eye(mask.shape[1], dtype=torch.bool)


TABLE = {
    (checks.check_padding, "right"): (lambda n: sum(max(n) - one for one in n), RIGHT),
    (checks.check_padding, "whole tensor"): (lambda n: len(n) * max(n), "real tokens included"),
    (checks.check_padding, "shortest"): (lambda n: max(n) - min(n), "shortest row"),
    (checks.check_padding, "real tokens"): (sum, "those are the real tokens"),
    (checks.check_padding, "words"): (lambda n: "two", "gives 'two'"),
    (checks.check_pad, "right"): (pad, RIGHT),
    (checks.check_pad, "lists"): (lambda *all: [t.tolist() for t in pad(*all)], RIGHT),
    (checks.check_pad, "booleans"): (lambda *all: (pad(*all)[0], pad(*all)[1].bool()), RIGHT),
    (checks.check_pad, "right side"): (pad_right, "padding goes to the left"),
    (checks.check_pad, "mask from ids"): (mask_from_ids, "from the lengths"),
    (checks.check_pad, "inverted"): (
        lambda *all: (pad(*all)[0], 1 - pad(*all)[1]),
        "the other way round",
    ),
    (checks.check_pad, "ones"): (
        lambda *all: (pad(*all)[0], torch.ones_like(pad(*all)[1])),
        "the mask of",
    ),
    (checks.check_pad, "other ids"): (lambda *all: (pad(*all)[0] + 1, pad(*all)[1]), "should be"),
    (checks.check_pad, "one table"): (lambda *all: pad(*all)[0], "return two tensors"),
    (checks.check_pad, "words"): (lambda *all: "two", "return two tensors"),
    (checks.check_pad, "nothing"): (lambda *all: None, "is there a `return`"),
    (checks.check_pad, "a value"): (7, "TypeError"),
    (checks.check_may_look, "right"): (may_look, RIGHT),
    (checks.check_may_look, "numbers"): (lambda mask: may_look(mask).long(), RIGHT),
    (checks.check_may_look, "causal only"): (
        lambda mask: causal(mask).expand(len(mask), -1, -1),
        "causal mask alone",
    ),
    (checks.check_may_look, "mask only"): (
        lambda mask: mask[:, None, :].expand(-1, mask.shape[1], -1),
        "attention mask alone",
    ),
    (checks.check_may_look, "turned"): (lambda mask: may_look(mask).mT, "changed places"),
    (checks.check_may_look, "without itself"): (without_itself, "itself too"),
    (checks.check_may_look, "mask on rows"): (
        lambda mask: causal(mask) & mask.bool()[:, :, None],
        "belongs to the columns",
    ),
    (checks.check_may_look, "one square"): (causal, "one square for each prompt"),
    (checks.check_may_look, "all"): (lambda mask: torch.ones_like(may_look(mask)), "should give"),
    (checks.check_may_look, "words"): (lambda mask: "mask", "return a tensor"),
    (checks.check_may_look, "raises"): (lambda mask: mask[99], "IndexError"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)


def streamed(tokenizer, ids):
    parts = []
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:count])
        parts.append("" if text.endswith("\ufffd") else text[len("".join(parts)) :])
    return parts


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (streamed, RIGHT),
        (lambda tokenizer, ids: [tokenizer.decode([x]) for x in ids], "before all of its bytes"),
        (
            lambda tokenizer, ids: [""] * (len(ids) - 1) + [tokenizer.decode(ids)],
            "everything waits",
        ),
        (
            lambda tokenizer, ids: [t.replace("\ufffd", "") for t in map(tokenizer.decode, ids)],
            "joined, your texts",
        ),
        (lambda tokenizer, ids: [t for t in streamed(tokenizer, ids) if t], "as many texts"),
        (lambda tokenizer, ids: streamed(tokenizer, ids)[:-1], "as many texts"),
        (lambda tokenizer, ids: tokenizer.decode(ids), "return a list of strings"),
        (lambda tokenizer, ids: None, "is there a `return`"),
        (lambda tokenizer, ids: ids[99], "IndexError"),
        (..., UNTRIED),
        (lambda *_: ..., UNTRIED),
    ],
)
def test_the_streams_check(tokenizer, function, said):
    assert said in checks.check_streamed(function, tokenizer)
