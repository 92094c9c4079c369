"""The checks of the chapter on batches accept right answers and name likely mistakes."""

import pytest
import torch

from inside_generate.exercises import batching_and_padding as checks
from inside_generate.exercises.checking import RIGHT


def up_to_eos(row, eos, kept=1):
    for column, index in enumerate(row):
        if index in eos:
            return row[: column + kept]
    return row


def up_to_last_eos(row, eos):
    return row[: max((n for n, index in enumerate(row, 1) if index in eos), default=len(row))]


def trimmed(rows, eos, pad):
    return [up_to_eos(row, eos) for row in rows]


def without_padding(rows, eos, pad):
    rows = [list(row) for row in rows]
    for row in rows:
        while row and row[-1] == pad:
            row.pop()
    return rows


def rate(tokens, prefill_s, step_s):
    return sum(tokens) / (prefill_s + step_s * (max(tokens) - 1))


def last_real(logits, mask):
    return logits[torch.arange(len(mask)), mask.sum(dim=1) - 1]


TABLE = {
    (checks.check_next_positions, "right"): (lambda mask: mask.sum(dim=1), RIGHT),
    (checks.check_next_positions, "with an axis"): (
        lambda mask: mask.sum(dim=1, keepdim=True),
        RIGHT,
    ),
    (checks.check_next_positions, "a list"): (lambda mask: mask.sum(dim=1).tolist(), RIGHT),
    (checks.check_next_positions, "columns"): (
        lambda mask: [mask.shape[1]] * len(mask),
        "that is the column",
    ),
    (checks.check_next_positions, "last token"): (
        lambda mask: mask.cumsum(dim=1)[:, -1] - 1,
        "the next one comes after it",
    ),
    (checks.check_next_positions, "too far"): (lambda mask: mask.sum(dim=1) + 1, "one too far"),
    (checks.check_next_positions, "padding"): (
        lambda mask: (1 - mask).sum(dim=1),
        "how much padding",
    ),
    (checks.check_next_positions, "all rows"): (lambda mask: mask.sum(), "one number for each row"),
    (checks.check_next_positions, "the other axis"): (
        lambda mask: mask.sum(dim=0),
        "add up along each row",
    ),
    (checks.check_next_positions, "words"): (lambda mask: "there", "gives 'there'"),
    (checks.check_next_positions, "nothing"): (lambda mask: None, "is there a `return`"),
    (checks.check_next_positions, "an error"): (lambda: 1, "TypeError"),
    (checks.check_next_positions, "a value"): (7, "asks for a function"),
    (checks.check_last_real, "right"): (last_real, RIGHT),
    (checks.check_last_real, "a list"): (lambda *both: last_real(*both).tolist(), RIGHT),
    (checks.check_last_real, "last column"): (lambda logits, mask: logits[:, -1], "last column"),
    (checks.check_last_real, "first"): (lambda logits, mask: logits[:, 0], "the first token"),
    (checks.check_last_real, "too early"): (
        lambda logits, mask: logits[torch.arange(len(mask)), mask.sum(dim=1) - 2],
        "one too early",
    ),
    (checks.check_last_real, "too late"): (
        lambda logits, mask: logits[torch.arange(len(mask)), mask.sum(dim=1)],
        "IndexError",
    ),
    (checks.check_last_real, "backwards"): (
        lambda *both: last_real(*both).flip(0),
        "not the logits of each last real token",
    ),
    (checks.check_last_real, "an axis too many"): (
        lambda *both: last_real(*both)[:, None],
        "the shape must be [2, 5], one row of logits a prompt, not [2, 1, 5]",
    ),
    (checks.check_last_real, "each column of every row"): (
        lambda logits, mask: logits[:, mask.sum(dim=1) - 1],
        "from every prompt",
    ),
    (checks.check_last_real, "a list of tensors"): (
        lambda *both: list(last_real(*both)),
        "torch.stack",
    ),
    (checks.check_last_real, "words"): (lambda *both: "there", "return one tensor"),
    (checks.check_last_real, "nothing"): (lambda *both: None, "is there a `return`"),
    (checks.check_tokens_per_second, "right"): (rate, RIGHT),
    (checks.check_tokens_per_second, "a tensor"): (
        lambda *all: torch.tensor(rate(*all)),  # fp32
        RIGHT,
    ),
    (checks.check_tokens_per_second, "ended rows"): (
        lambda tokens, *times: rate([max(tokens)] * len(tokens), *times),
        "gives no more tokens",
    ),
    (checks.check_tokens_per_second, "one by one"): (
        lambda tokens, p, s: sum(tokens) / (p + s * (sum(tokens) - len(tokens))),
        "the rows go together",
    ),
    (checks.check_tokens_per_second, "a step too many"): (
        lambda tokens, p, s: sum(tokens) / (p + s * max(tokens)),
        "one step too many",
    ),
    (checks.check_tokens_per_second, "no prefill"): (
        lambda tokens, p, s: sum(tokens) / (s * (max(tokens) - 1)),
        "prefill takes time too",
    ),
    (checks.check_tokens_per_second, "decode alone"): (
        lambda tokens, p, s: sum(n - 1 for n in tokens) / (s * (max(tokens) - 1)),
        "the decode steps alone",
    ),
    (checks.check_tokens_per_second, "no first tokens"): (
        lambda tokens, p, s: sum(n - 1 for n in tokens) / (p + s * (max(tokens) - 1)),
        "come out of prefill",
    ),
    (checks.check_tokens_per_second, "the last row's steps"): (
        lambda tokens, p, s: sum(tokens) / (p + s * (tokens[-1] - 1)),
        "your function gives",
    ),
    (checks.check_tokens_per_second, "one row"): (
        lambda tokens, *times: rate([max(tokens)], *times),
        "add up the tokens",
    ),
    (checks.check_tokens_per_second, "other"): (lambda *all: 4, "gives 4.0"),
    (checks.check_trim, "right"): (trimmed, RIGHT),
    (checks.check_trim, "tensors"): (
        lambda *all: [torch.tensor(row) for row in trimmed(*all)],
        RIGHT,
    ),
    (checks.check_trim, "EOS left out"): (
        lambda rows, eos, pad: [up_to_eos(row, eos, kept=0) for row in rows],
        "keep it",
    ),
    (checks.check_trim, "padding taken off"): (without_padding, "the padding may be EOS"),
    (checks.check_trim, "padding ids taken out"): (
        lambda rows, eos, pad: [
            [index for index in row if index != pad or pad in eos]
            for row in trimmed(rows, eos, pad)
        ],
        "may hold the padding's id as well",
    ),
    (checks.check_trim, "padding ids taken out everywhere"): (
        lambda rows, eos, pad: [[index for index in row if index != pad] for row in rows],
        "real tokens go too",
    ),
    (checks.check_trim, "the last EOS"): (
        lambda rows, eos, pad: [up_to_last_eos(row, eos) for row in rows],
        "the first one ends it",
    ),
    (checks.check_trim, "one EOS id"): (
        lambda rows, eos, pad: trimmed(rows, [min(eos)], pad),
        "any of the EOS ids",
    ),
    (checks.check_trim, "nothing cut"): (lambda rows, *_: rows, "nothing is cut"),
    (checks.check_trim, "a number"): (lambda *_: 4, "gives 4"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)
