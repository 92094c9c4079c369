"""Greedy choice, draws by chance as the library's, and the check of what a sampler hands back."""

import math

import pytest
import torch
from tests.tiny import tiny_model
from transformers import GenerationConfig

from inside_generate import encode, generate, greedy
from inside_generate.filters import filtered, penalise_repetition
from inside_generate.sampling import SeesTokens, check_choice, choose, draw, penalised, sampling


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


# --- drawing --------------------------------------------------------------------------------------

SHARES = torch.tensor([[0.4, 0.3, 0.15, 0.1, 0.04, 0.01]])


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def chi_squared(drawn, shares):
    """How far counts lie from what the probabilities let expect, [V]; about V − 1 by chance."""
    expected = shares * len(drawn)
    counted = torch.bincount(drawn, minlength=len(shares))
    return float(((counted - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_each_token_is_drawn_as_often_as_its_probability_says(dtype):
    logits = SHARES.log().to(dtype)
    drawn = draw(logits.expand(40_000, -1), chance())
    assert drawn.shape == (40_000,)
    assert chi_squared(drawn, logits.float().softmax(-1)[0]) < 25.7  # 1 in 10,000 by chance alone
    assert chi_squared(drawn, SHARES[0].flip(0)) > 1000


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 2.0},
        {"temperature": 0.5},
        {"top_k": 3},
        {"top_p": 0.8},
        {"min_p": 0.3},
        {"temperature": 1.5, "top_k": 5, "top_p": 0.9, "min_p": 0.2},
    ],
    ids=str,
)
def test_a_sampler_draws_as_often_as_the_filtered_probabilities_say(settings):
    shares = filtered(SHARES.log(), **settings).softmax(-1)[0]
    drawn = sampling(**settings, seed=1)(SHARES.log().expand(20_000, -1))
    left = shares > 0
    assert set(drawn.tolist()) == set(left.nonzero()[:, 0].tolist())
    places = left.cumsum(0) - 1
    assert chi_squared(places[drawn], shares[left]) < 25.7


def test_softmax_is_taken_in_fp32_whatever_the_logits_are():
    logits = torch.randn(500, 40, generator=chance(1)).to(torch.bfloat16)
    assert torch.equal(draw(logits, chance()), draw(logits.float(), chance()))


def test_rows_are_drawn_apart_from_each_other():
    logits = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0], [0.0, -math.inf]])
    assert draw(logits).tolist() == [0, 1, 0]
    assert len(set(draw(torch.zeros(50, 9), chance()).tolist())) > 1


def test_a_draw_leaves_the_logits_as_they_were():
    logits = SHARES.log()
    sampling(temperature=0.5, top_k=2, top_p=0.5, min_p=0.5)(logits)
    assert torch.equal(logits, SHARES.log())


@pytest.mark.parametrize("row", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]], ids=str)
def test_logits_that_give_no_probabilities_are_refused(row):
    message = (
        r"^the logits give no probabilities \(NaN, or infinite\): the weights are damaged, the "
        "dtype is too small for this model, or the temperature too near 0$"
    )
    with pytest.raises(ValueError, match=message):
        draw(torch.tensor([[0.0, 1.0], row]))


def test_a_seed_in_a_generators_place_is_refused():
    with pytest.raises(ValueError, match=r"generator must be a torch.Generator, not 5$"):
        draw(torch.zeros(1, 3), 5)


def test_one_row_that_is_no_batch_is_refused():
    with pytest.raises(ValueError, match=r"\[B, V\]"):
        draw(torch.zeros(3))


# --- seeds ----------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_and_another_others():
    logits = torch.zeros(30, 100)
    assert torch.equal(sampling(seed=3)(logits), sampling(seed=3)(logits))
    assert torch.equal(sampling(seed=3)(logits), draw(logits, chance(3)))
    assert not torch.equal(sampling(seed=3)(logits), sampling(seed=4)(logits))


def test_a_samplers_draws_move_on():
    sampler = sampling(seed=0)
    assert not torch.equal(sampler(torch.zeros(30, 100)), sampler(torch.zeros(30, 100)))


def test_a_sampler_with_a_seed_leaves_torchs_own_generator_alone():
    before = torch.get_rng_state()
    sampling(seed=0)(torch.zeros(3, 4))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_may_stand_for_the_seed_and_none_for_torchs_own():
    logits = torch.zeros(30, 100)
    assert torch.equal(sampling(seed=chance(5))(logits), sampling(seed=5)(logits))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        assert torch.equal(sampling()(logits), sampling(seed=5)(logits))


def test_the_same_seed_gives_the_same_answer(model, tokenizer):
    def answer(seed):
        sampler = sampling(temperature=2.0, seed=seed)
        return generate(model, tokenizer, "soup", max_new_tokens=8, sampler=sampler).generated_ids

    assert answer(0) == answer(0) != answer(1)


@pytest.mark.parametrize("bad", [-1, 2**63, 1.0, "0", True], ids=repr)
def test_a_bad_seed_is_refused_with_its_value(bad):
    with pytest.raises(ValueError, match=f"seed must be .*not {bad!r}$"):
        sampling(seed=bad)


def test_the_seeds_at_both_ends_are_taken():
    for seed in (0, 2**63 - 1):
        assert sampling(seed=seed)(torch.zeros(1, 1)).tolist() == [0]


# --- equal to generate() --------------------------------------------------------------------------

ASKED = [
    {},
    {"temperature": 0.7},
    {"top_k": 4},
    {"top_p": 0.8},
    {"top_p": 1.0},
    {"min_p": 0.1},
    {"repetition_penalty": 1.3},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1},
    {"temperature": 1.7, "top_k": 30, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 0.8},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_all_filters_together_equal_the_librarys_chain(model, asked):
    config = GenerationConfig(**({"do_sample": True, "top_k": 0} | asked))
    chain = model._get_logits_processor(config, input_ids_seq_length=6)
    logits = 4 * torch.randn(3, 300, generator=chance()).to(torch.bfloat16)
    ids = torch.randint(0, 300, (3, 6), generator=chance(1))
    theirs = chain(ids, logits.float())
    penalty = asked.get("repetition_penalty", 1.0)
    rest = {name: value for name, value in asked.items() if name != "repetition_penalty"}
    ours = filtered(penalise_repetition(logits.float(), ids, penalty), **rest)
    assert torch.equal(ours, theirs)
    drawn = choose(sampling(**asked, seed=2), logits, ids)
    assert torch.equal(drawn, draw(theirs, chance(2)))


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_an_answer_drawn_equals_the_librarys_drawn_from_the_same_seed(model, tokenizer, asked):
    inputs = encode(tokenizer, "soup")
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": 12} | asked
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        theirs = model.generate(**inputs, **settings)[0, inputs["input_ids"].shape[1] :]
    sampler = sampling(**asked, seed=11)
    ours = generate(model, tokenizer, "soup", max_new_tokens=12, sampler=sampler)
    assert ours.generated_ids == theirs.tolist()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_greedy_after_a_penalty_equals_the_librarys(tokenizer, seed):
    model = tiny_model(seed, generation={"repetition_penalty": 1.3})
    inputs = encode(tokenizer, "soup")
    theirs = model.generate(**inputs, do_sample=False, max_new_tokens=20)
    theirs = theirs[0, inputs["input_ids"].shape[1] :].tolist()
    for penalty, equal in ((1.3, True), (1.0, False)):
        ours = generate(model, tokenizer, "soup", max_new_tokens=20, sampler=penalised(penalty))
        assert (ours.generated_ids == theirs) == equal


def test_the_penalty_works_in_fp32_whatever_the_logits_are():
    logits = torch.tensor([[16.5, 18.0]], dtype=torch.bfloat16)
    ids = torch.tensor([[1]])  # 18 / 1.09 = 16.51, in bf16 16.5: a tie, and the lower id would win
    assert choose(penalised(1.09), logits, ids).tolist() == [1]
    assert choose(penalised(1.1), logits, ids).tolist() == [0]


def test_only_a_penalty_makes_a_sampler_see_the_tokens():
    assert isinstance(sampling(repetition_penalty=1.1), SeesTokens)
    assert not isinstance(sampling(repetition_penalty=1, temperature=0.5), SeesTokens)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"temperature": 0}, "temperature .*not 0; .*sampler=greedy"),
        ({"top_k": 0}, "k must be .*not 0"),
        ({"top_p": 1.5}, "top-p must be .*not 1.5"),
        ({"min_p": 0}, "min-p must be .*not 0"),
        ({"repetition_penalty": -1}, "penalty must be .*not -1"),
        ({"repetition_penalty": True}, "penalty must be .*not True"),
    ],
    ids=str,
)
def test_a_sampler_that_could_not_draw_is_refused_when_it_is_made(bad, named):
    with pytest.raises(ValueError, match=named):
        sampling(**bad)


def test_a_bad_penalty_is_refused_when_the_sampler_is_made():
    with pytest.raises(ValueError, match=r"penalty must be .*not 0$"):
        penalised(0)


@pytest.mark.parametrize("bad", [None, "greedy", SeesTokens(lambda logits, token_ids: None)])
def test_a_penalty_before_what_is_no_sampler_of_logits_is_refused_when_it_is_made(bad):
    with pytest.raises(ValueError, match=r"a sampler must be a function of logits, .* not "):
        penalised(1.2, bad)


@pytest.mark.parametrize("bad", [None, "greedy", 0.7])
def test_what_is_no_sampler_is_refused_by_name(bad):
    with pytest.raises(ValueError, match=f"function of logits, such as greedy .*, not {bad!r}"):
        choose(bad, torch.zeros(1, 3), torch.zeros(1, 1).long())


def test_a_misspelt_setting_is_refused():
    with pytest.raises(TypeError, match="top_q"):
        sampling(top_q=0.5)


def test_a_penalty_before_a_penalty_is_refused_with_what_is_wanted():
    with pytest.raises(
        ValueError, match="function of logits, one without a penalty of its own, not"
    ):
        penalised(1.1, penalised(1.2))
