"""Greedy choice, and the check of what a sampler hands back."""

import pytest
import torch

from inside_generate import greedy
from inside_generate.sampling import check_choice


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_greedy_is_the_argmax_of_each_row(dtype):
    logits = torch.tensor([[0.5, 3.0, -1.0], [2.0, -7.0, 1.0]], dtype=dtype)
    assert greedy(logits).tolist() == [1, 0]


def test_greedy_equals_the_argmax_of_the_probabilities():
    logits = torch.randn(64, 100, generator=torch.Generator().manual_seed(0)) * 5
    assert torch.equal(greedy(logits), logits.softmax(dim=-1).argmax(dim=-1))


def test_greedy_returns_one_whole_number_a_row():
    choice = greedy(torch.randn(3, 10, generator=torch.Generator().manual_seed(0)))
    assert choice.shape == (3,)
    assert choice.dtype == torch.long


def test_greedy_leaves_the_logits_as_they_were():
    logits = torch.randn(2, 10, generator=torch.Generator().manual_seed(0))
    before = logits.clone()
    greedy(logits)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("width", [4, 151_936])
def test_of_equal_logits_the_lowest_id_wins(width):
    logits = torch.zeros(2, width)
    assert greedy(logits).tolist() == [0, 0]
    logits[:, [width // 2, width - 1]] = 1.0
    assert greedy(logits).tolist() == [width // 2] * 2


def test_two_logits_that_bf16_cannot_tell_apart_are_a_tie():
    logits = torch.tensor([[18.03, 18.06]])
    assert greedy(logits).tolist() == [1]
    assert greedy(logits.to(torch.bfloat16)).tolist() == [0]


def test_a_valid_choice_passes_unchanged():
    token_ids = torch.tensor([0, 9])
    assert check_choice(token_ids, torch.zeros(2, 10)) is token_ids


@pytest.mark.parametrize("bad", [[10], [-1]])
def test_an_id_outside_the_vocabulary_is_refused_with_the_range(bad):
    with pytest.raises(ValueError, match=rf"ids from 0 to 9, not .*{bad[0]}"):
        check_choice(torch.tensor(bad), torch.zeros(1, 10))


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (torch.tensor([[1], [2]]), r"\[2, 1\]"),
        (torch.tensor([1]), r"\[1\]"),
        (torch.tensor(1), r"\[\]"),
        ([1, 2], "list"),
        (None, "NoneType"),
    ],
    ids=["column", "one for two", "scalar", "list", "nothing"],
)
def test_a_choice_of_another_form_is_refused_with_its_form(bad, named):
    with pytest.raises(ValueError, match=rf"shape \[2\], not .*{named}"):
        check_choice(bad, torch.zeros(2, 10))
