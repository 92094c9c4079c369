"""Each filter is the library's processor number for number, whatever the logits are."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from inside_generate.filters import (
    filtered,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalise_repetition,
    with_temperature,
)

INF, NAN = math.inf, math.nan
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
OURS_AND_THEIRS = {
    "temperature": (with_temperature, TemperatureLogitsWarper, (0.1, 0.5, 0.7, 1.0, 1.5, 10.0)),
    "top-k": (keep_top_k, TopKLogitsWarper, (1, 2, 3, 4, 5, 20, 10**6)),
    "top-p": (keep_top_p, TopPLogitsWarper, (1e-9, 0.1, 0.25, 0.5, 0.75, 0.8, 0.95, 0.999)),
    "min-p": (keep_min_p, MinPLogitsWarper, (1e-9, 0.05, 0.1, 0.5, 0.75, 1.0)),
}
PENALTIES = (0.5, 1.0, 1.1, 1.3, 9.0)


def random_logits(rows, width, seed=0, size=4.0):
    return size * torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def tied_logits(rows, width):
    """Whole numbers from −3 to 3: many are equal."""
    return torch.randint(-3, 4, (rows, width), generator=torch.Generator().manual_seed(1)).float()


LOGITS = {
    "random": random_logits(5, 50),
    "many": random_logits(2, 4_000),
    "far apart": random_logits(3, 9, size=60),
    "all equal": torch.zeros(2, 8),
    "ties": tied_logits(4, 40),
    "a tie at the second place": torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]]),
    "one above p": torch.tensor([[9.0, 0.0, 1.0, -1.0]]),
    "exact shares": torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log(),
    "a vocabulary of one": torch.tensor([[5.0], [-5.0], [0.0]]),
    "all but one struck out": torch.tensor([[-INF, -INF, 2.0, -INF]]),
    "some struck out": torch.tensor([[-INF, 1.0, -2.0, -INF, 0.5]]),
    "all struck out": torch.full((1, 4), -INF),
    "infinite": torch.tensor([[INF, 1.0, -1.0], [0.0, INF, INF]]),
    "not a number": torch.tensor([[NAN, 1.0, 2.0], [3.0, NAN, NAN], [0.0, 1.0, 2.0]]),
    "huge": torch.tensor([[1e30, -1e30, 6e4, -6e4, 0.0]]),
    "tiny": torch.tensor([[1e-30, -1e-30, 6e-8, 0.0, -0.0]]),
    "all below 0": torch.tensor([[-1.0, -2.0, -3.0, -2.0]]),
}


def identical(ours, theirs):
    """The same numbers, NaN in the same places, the same dtype; 0 and −0 may differ."""
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert bool(((ours == theirs) | (ours.isnan() & theirs.isnan())).all()), (ours, theirs)


def kept(logits):
    """Which tokens of the only row are left."""
    return (logits[0] > -INF).nonzero()[:, 0].tolist()


# --- equal to the library -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OURS_AND_THEIRS)
def test_a_filter_equals_the_librarys(name, dtype):
    ours, theirs, values = OURS_AND_THEIRS[name]
    for logits in (rows.to(dtype) for rows in LOGITS.values()):
        before = logits.clone()
        for value in values:
            identical(ours(logits, value), theirs(value)(None, logits))
        identical(logits, before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_penalty_equals_the_librarys(penalty, dtype):
    generator = torch.Generator().manual_seed(3)
    for logits in (rows.to(dtype) for rows in LOGITS.values()):
        before = logits.clone()
        ids = torch.randint(0, logits.shape[1], (len(logits), 7), generator=generator)
        theirs = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits)
        identical(penalise_repetition(logits, ids, penalty), theirs)
        identical(penalise_repetition(logits, list(ids.int()), penalty), theirs)
        identical(logits, before)


def test_the_penalty_passes_over_padding_as_the_librarys_does():
    rows = [torch.tensor([4, 2]), torch.tensor([1, 1, 3, 0])]
    padded = torch.tensor([[9, 9, 4, 2], [1, 1, 3, 0]])
    logits = random_logits(2, 10)
    theirs = RepetitionPenaltyLogitsProcessor(1.3, prompt_ignore_length=torch.tensor([2, 0]))
    identical(penalise_repetition(logits, rows, 1.3), theirs(padded, logits))


rows_of_numbers = st.lists(
    st.sampled_from([-INF, -3.0, -0.5, 0.0, 0.25, 1.0, 2.0, 7.5, 60.0]) | st.floats(-30, 30),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(row=rows_of_numbers, p=st.floats(1e-6, 0.999), k=st.integers(1, 40))
def test_filters_equal_the_librarys_on_whatever_row(row, p, k):
    logits = torch.tensor([row])
    identical(keep_top_p(logits, p), TopPLogitsWarper(p)(None, logits))
    identical(keep_min_p(logits, p), MinPLogitsWarper(p)(None, logits))
    identical(keep_top_k(logits, k), TopKLogitsWarper(k)(None, logits))
    identical(with_temperature(logits, p), TemperatureLogitsWarper(p)(None, logits))


# --- what they keep -------------------------------------------------------------------------------


def test_temperature_divides():
    assert with_temperature(torch.tensor([[3.0, -1.0]]), 2).tolist() == [[1.5, -0.5]]


@pytest.mark.parametrize(
    ("k", "left"), [(1, [1]), (2, [1, 2, 3]), (3, [1, 2, 3]), (4, [0, 1, 2, 3])]
)
def test_top_k_keeps_what_is_equal_to_the_kth(k, left):
    assert kept(keep_top_k(torch.tensor([[1.0, 3.0, 2.0, 2.0, 0.0]]), k)) == left


@pytest.mark.parametrize("k", [5, 6, 1000])
def test_top_k_of_the_vocabulary_or_more_keeps_all(k):
    assert torch.equal(keep_top_k(random_logits(2, 5), k), random_logits(2, 5))


@pytest.mark.parametrize(
    ("p", "left"),
    [
        (0.01, [0]),
        (0.5, [0]),
        (0.51, [0, 1]),
        (0.75, [0, 1]),
        (0.76, [0, 1, 2]),
        (0.999, [0, 1, 2]),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_p(p, left):
    shares = torch.tensor([[0.5, 0.25, 0.25 - 2**-10, 2**-10]]).double()
    assert kept(keep_top_p(shares.log(), p)) == left


def test_of_equal_logits_at_the_border_top_p_keeps_as_many_as_are_needed():
    for p, number in {0.2: 1, 0.25: 1, 0.3: 2, 0.5: 2, 0.6: 3, 0.75: 3, 0.8: 4}.items():
        assert len(kept(keep_top_p(torch.zeros(1, 4), p))) == number


def test_top_p_of_1_keeps_even_what_softmax_rounds_to_0():
    logits = torch.tensor([[200.0, 0.0, -200.0]])
    whole = keep_top_p(logits, 1.0)
    assert torch.equal(whole, logits)
    assert whole is not logits
    assert kept(keep_top_p(logits, 1 - 1e-9)) == [0]


@pytest.mark.parametrize(("p", "left"), [(0.5, [0, 1]), (0.51, [0]), (0.25, [0, 1, 2]), (1, [0])])
def test_min_p_keeps_what_is_p_times_as_probable_as_the_best(p, left):
    assert kept(keep_min_p(torch.tensor([[0.5, 0.25, 0.125, 0.05]]).double().log(), p)) == left


def test_min_p_of_1_keeps_all_that_are_best():
    assert kept(keep_min_p(torch.tensor([[2.0, 1.0, 2.0]]), 1.0)) == [0, 2]


def test_the_penalty_lowers_both_sides_of_0_and_once_only():
    logits = torch.tensor([[4.0, -4.0, 4.0, 0.0]])
    lowered = penalise_repetition(logits, torch.tensor([[0, 1, 0, 0, 3]]), 2)
    assert lowered.tolist() == [[2.0, -8.0, 4.0, 0.0]]
    assert penalise_repetition(logits, torch.tensor([[0, 1]]), 0.5).tolist() == [[8, -2, 4, 0]]


def test_the_penalty_of_a_row_counts_that_row_only():
    logits = torch.ones(2, 3)
    rows = [torch.tensor([0]), torch.tensor([], dtype=torch.long)]
    assert penalise_repetition(logits, rows, 2).tolist() == [[0.5, 1, 1], [1, 1, 1]]


def test_a_penalty_of_1_changes_nothing():
    logits = random_logits(2, 9)
    assert torch.equal(penalise_repetition(logits, torch.tensor([[1, 2], [3, 4]]), 1), logits)


# --- in a row -------------------------------------------------------------------------------------


def test_temperature_comes_before_top_p():
    logits = torch.tensor([[3.0, 2.0, 1.0]])
    assert kept(filtered(logits, temperature=0.5, top_p=0.8)) == [0]
    assert kept(with_temperature(keep_top_p(logits, 0.8), 0.5)) == [0, 1]


def test_top_k_comes_before_top_p_and_that_before_min_p():
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert kept(filtered(logits, top_k=2, top_p=0.55)) == [0]  # 0.4 of 0.7 is enough
    assert kept(keep_top_k(keep_top_p(logits, 0.55), 2)) == [0, 1]
    assert kept(filtered(logits, top_p=0.8, min_p=0.6)) == [0, 1]


def test_nothing_asked_for_changes_nothing_but_the_dtype():
    logits = random_logits(2, 9).to(torch.bfloat16)
    assert torch.equal(filtered(logits), logits.float())
    assert filtered(logits).dtype == torch.float32


def test_filters_in_a_row_work_in_fp32():
    logits = random_logits(3, 200).to(torch.bfloat16)
    chain = TopPLogitsWarper(0.9)(None, TemperatureLogitsWarper(0.7)(None, logits.float()))
    identical(filtered(logits, temperature=0.7, top_p=0.9), chain)


# --- refusals -------------------------------------------------------------------------------------

NO_NUMBERS = ["0.5", None, True, False, 1j, [0.5], torch.tensor(0.5), NAN]


@pytest.mark.parametrize("bad", [0, 0.0, -1, -0.5, INF, -INF, 10**400, *NO_NUMBERS], ids=repr)
@pytest.mark.parametrize("name", ["temperature", "penalty"])
def test_a_bad_divisor_is_refused_with_its_value(name, bad):
    ids = [] if name == "temperature" else [torch.zeros(1, 1).long()]
    divide = with_temperature if name == "temperature" else penalise_repetition
    with pytest.raises(ValueError, match=f"^{name} must be a finite number above 0, not ") as error:
        divide(torch.zeros(1, 3), *ids, bad)
    assert repr(bad)[:100] in str(error.value)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64])
def test_a_number_of_numpys_is_a_number_and_warns_of_nothing(kind):
    logits = torch.tensor([[1.0, 2.0]])
    assert torch.equal(with_temperature(logits, kind(2)), logits / 2)


def test_temperature_0_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"not 0; for the best token each time: sampler=greedy"):
        with_temperature(torch.zeros(1, 3), 0)


def test_only_a_temperature_is_sent_to_greedy():
    with pytest.raises(ValueError, match=r"not 0$"):
        penalise_repetition(torch.zeros(1, 3), torch.zeros(1, 1).long(), 0)


@pytest.mark.parametrize("bad", [0, -0.1, 1.0001, 2, INF, *NO_NUMBERS], ids=repr)
@pytest.mark.parametrize("filter_", [keep_top_p, keep_min_p])
def test_a_p_that_is_no_share_is_refused_with_its_value(filter_, bad):
    kind = "the p of top-p" if filter_ is keep_top_p else "the p of min-p"
    with pytest.raises(ValueError, match=f"^{kind} must be above 0 and at most 1, not ") as error:
        filter_(torch.zeros(1, 3), bad)
    assert str(error.value).endswith(repr(bad))


@pytest.mark.parametrize("bad", [0, -1, 2.0, INF, *NO_NUMBERS], ids=repr)
def test_a_k_that_is_no_count_is_refused_with_its_value(bad):
    with pytest.raises(ValueError, match=r"^k must be a whole number of at least 1, not ") as error:
        keep_top_k(torch.zeros(1, 3), bad)
    assert str(error.value).endswith(repr(bad))


BAD_LOGITS = {
    "a list": ([[1.0]], "not list"),
    "whole numbers": (torch.ones(1, 3, dtype=torch.long), "not torch.int64"),
    "complex": (torch.ones(1, 3, dtype=torch.cfloat), "not torch.complex64"),
    "a row": (torch.ones(3), r"not \[3\]"),
    "all positions": (torch.ones(1, 2, 3), r"not \[1, 2, 3\]"),
    "no rows": (torch.ones(0, 3), r"not \[0, 3\]"),
    "no tokens": (torch.ones(1, 0), r"not \[1, 0\]"),
}


@pytest.mark.parametrize(
    "function",
    [
        lambda z: with_temperature(z, 1.0),
        lambda z: keep_top_k(z, 1),
        lambda z: keep_top_p(z, 0.5),
        lambda z: keep_min_p(z, 0.5),
        lambda z: penalise_repetition(z, torch.zeros(1, 1).long(), 1.1),
        filtered,
    ],
    ids=["temperature", "top-k", "top-p", "min-p", "penalty", "all"],
)
def test_logits_of_another_form_are_refused_with_their_form(function):
    for logits, named in BAD_LOGITS.values():
        with pytest.raises(ValueError, match=f"^logits must be .*{named}$"):
            function(logits)


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        (torch.tensor([[0, 2, 3]]), r"ids must be from 0 to 2, not \[3\]$"),
        (torch.tensor([[-1, 2]]), r"from 0 to 2, not \[-1\]$"),
        (torch.tensor([[0], [1]]), "1 rows of logits need as many rows of ids, not 2"),
        (torch.tensor([[0.0]]), "must be a tensor of int64 or int32, not torch.float32"),
        (torch.tensor([[True]]), "not torch.bool"),
        ([[1, 2]], "not list"),
        (5, "ids must be rows of them, not 5"),
        (torch.tensor(5), r"ids must be rows of them, not tensor\(5\)"),
    ],
    ids=["too large", "negative", "too many", "fractions", "a mask", "a list", "one", "one tensor"],
)
def test_ids_that_do_not_belong_to_the_logits_are_refused(ids, named):
    with pytest.raises(ValueError, match=named):
        penalise_repetition(torch.zeros(1, 3), ids, 1.1)
