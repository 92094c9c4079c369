"""The checks of the chapter on choosing tokens accept right answers and name likely mistakes."""

import math

import numpy as np
import pytest
import torch

from inside_generate.exercises import choosing_tokens as checks
from inside_generate.exercises.checking import RIGHT


def falling(row):
    return sorted(range(len(row)), key=lambda place: -row[place])


def top_p(row, p):
    kept, total = [], 0.0
    for place in falling(row):
        kept.append(place)
        total += row[place]
        if total >= p:
            break
    return sorted(kept)


def without_the_last(row, p):
    kept, total = [], 0.0
    for place in falling(row):
        total += row[place]
        if total > p:
            break
        kept.append(place)
    return sorted(kept)


def past_p(row, p):
    return top_p(row, p + 1e-9)


def from_id_0(row, p):
    sums = np.cumsum(row)
    return list(range(int((sums < p).sum()) + 1))


def from_the_other_end(row, p):
    order = np.argsort(row)
    struck = int((np.cumsum(np.array(row)[order]) <= 1 - p).sum())
    return sorted(order[struck:].tolist())


def last_of_equals_first(row, p):
    order = np.argsort(row)[::-1]
    count = int((np.cumsum(np.array(row)[order]) < p).sum()) + 1
    return sorted(order[:count].tolist())


def penalty_in_place(row, ids, q):
    for i in set(ids):
        row[i] = row[i] * q if row[i] < 0 else row[i] / q
    return row


def penalty_in_a_copy(row, ids, q):
    return penalty_in_place(row.copy(), ids, q)


def drawn_from_sorted(row, u):
    return falling(row)[drawn(sorted(row, reverse=True), u)]


def penalty(row, ids, q):
    return [(z * q if z < 0 else z / q) if i in ids else z for i, z in enumerate(row)]


def each_time(row, ids, q):
    row = list(row)
    for i in ids:
        row[i] = row[i] * q if row[i] < 0 else row[i] / q
    return row


def drawn(row, u):
    return int((np.cumsum(row) <= u).sum())


def at_the_border(row, u):
    return int((np.cumsum(row) < u).sum())


def beam_step(beams, log_p, count):
    longer = [
        ([*ids, token], so_far + more)
        for (ids, so_far), row in zip(beams, log_p, strict=True)
        for token, more in enumerate(row)
    ]
    return sorted(longer, key=lambda beam: beam[1], reverse=True)[:count]


def one_of_each(beams, log_p, count):
    best = [beam_step([beam], [row], 1)[0] for beam, row in zip(beams, log_p, strict=True)]
    return best if len(best) == count else beam_step(beams, log_p, count)


def forgetful(beams, log_p, count):
    best = beam_step([(ids, 0.0) for ids, _ in beams], log_p, count)
    return best if len(beams) > 1 else beam_step(beams, log_p, count)


def multiplied(beams, log_p, count):
    return [(ids, math.exp(total)) for ids, total in beam_step(beams, log_p, count)]


TABLE = {
    (checks.check_top_p, "right"): (top_p, RIGHT),
    (checks.check_top_p, "a tensor"): (lambda *all: torch.tensor(top_p(*all)), RIGHT),
    (checks.check_top_p, "from the other end"): (from_the_other_end, RIGHT),
    (checks.check_top_p, "sorted by numpy"): (last_of_equals_first, RIGHT),
    (checks.check_top_p, "without the last"): (without_the_last, "that reaches p is kept"),
    (checks.check_top_p, "without the last, one at least"): (
        lambda row, p: without_the_last(row, p) or falling(row)[:1],
        "the best token stays",
    ),
    (checks.check_top_p, "past p"): (past_p, "p exactly"),
    (checks.check_top_p, "in order of ids"): (from_id_0, "not with id 0"),
    (checks.check_top_p, "unsorted"): (
        lambda row, p: falling(row)[: len(top_p(row, p))],
        "sort the ids",
    ),
    (checks.check_top_p, "each token"): (
        lambda row, p: [i for i, share in enumerate(row) if share >= p],
        "not for each token",
    ),
    (checks.check_top_p, "a count"): (lambda *all: len(top_p(*all)), "which ones"),
    (checks.check_top_p, "a constant"): (lambda row, p: [0], "gives [0]"),
    (checks.check_top_p, "nothing"): (lambda row, p: None, "is there a `return`"),
    (checks.check_top_p, "a value"): ([0], "asks for a function"),
    (checks.check_penalty, "right"): (penalty, RIGHT),
    (checks.check_penalty, "a tensor"): (lambda *all: torch.tensor(penalty(*all)), RIGHT),
    (checks.check_penalty, "in place"): (penalty_in_place, RIGHT),
    (checks.check_penalty, "in a copy"): (penalty_in_a_copy, RIGHT),
    (checks.check_penalty, "divided"): (
        lambda row, ids, q: [z / q if i in ids else z for i, z in enumerate(row)],
        "dividing a logit below 0",
    ),
    (checks.check_penalty, "multiplied"): (
        lambda row, ids, q: [z * q if i in ids else z for i, z in enumerate(row)],
        "multiplying a logit above 0",
    ),
    (checks.check_penalty, "each time"): (each_time, "how often"),
    (checks.check_penalty, "subtracted"): (
        lambda row, ids, q: [z - q if i in ids else z for i, z in enumerate(row)],
        "nothing is subtracted",
    ),
    (checks.check_penalty, "all"): (
        lambda row, ids, q: penalty(row, range(len(row)), q),
        "only the tokens that have occurred",
    ),
    (checks.check_penalty, "words"): (lambda *_: "lower", "gives 'lower'"),
    (checks.check_penalty, "an error"): (lambda row, ids, q: row[9], "IndexError"),
    (checks.check_draw, "right"): (drawn, RIGHT),
    (checks.check_draw, "the best"): (lambda row, u: falling(row)[0], "where does u come in"),
    (checks.check_draw, "at the border"): (at_the_border, "at the border"),
    (checks.check_draw, "from the sorted"): (drawn_from_sorted, "in order of the ids"),
    (checks.check_draw, "one probability"): (
        lambda row, u: next((i for i, share in enumerate(row) if share > u), len(row) - 1),
        "sum so far",
    ),
    (checks.check_draw, "equal parts"): (lambda row, u: int(u * len(row)), "equal parts"),
    (checks.check_draw, "a constant"): (lambda row, u: 1, "gives 1"),
    (checks.check_beam_step, "right"): (beam_step, RIGHT),
    (checks.check_beam_step, "tensors"): (
        lambda *all: [(torch.tensor(i), torch.tensor(p).double()) for i, p in beam_step(*all)],
        RIGHT,
    ),
    (checks.check_beam_step, "one of each"): (one_of_each, "compare all of them together"),
    (checks.check_beam_step, "forgetful"): (forgetful, "so far counts as well"),
    (checks.check_beam_step, "multiplied"): (multiplied, "along a path add up"),
    (checks.check_beam_step, "worst first"): (
        lambda *all: beam_step(*all)[::-1],
        "most probable one first",
    ),
    (checks.check_beam_step, "too many"): (
        lambda beams, log_p, count: beam_step(beams, log_p, count + 1),
        "2 beams are to be kept, not 3",
    ),
    (checks.check_beam_step, "others"): (
        lambda beams, log_p, count: [((9, 9), 0.0)] * count,
        "keeps [(9, 9), (9, 9)]",
    ),
    (checks.check_beam_step, "no log-probabilities"): (
        lambda *all: [ids for ids, _ in beam_step(*all)],
        "list of (ids, log_p)",
    ),
    (checks.check_beam_step, "nothing"): (lambda *_: None, "is there a `return`"),
    (checks.check_beam_step, "a value"): (3, "raised TypeError"),
}


@pytest.mark.parametrize(("check", "name"), TABLE, ids=lambda part: getattr(part, "__name__", part))
def test_a_check_knows_right_from_likely_wrong(check, name):
    learners, said = TABLE[check, name]
    assert said in check(learners)
