"""Two programs over the same tokens: rounding is told from a mistake, and a tie from both."""

import copy

import pytest
import torch
from tests.tiny import random_inputs, tiny_model

from inside_generate import append_one, decode_step, greedy, prefill
from inside_generate.disagreement import difference, forced, forced_at_once, in_dtype
from inside_generate.rounding import logit_tolerance

STEPS = 32


def greedy_ids(model, inputs, steps=STEPS):
    """Return the ids of the model's own greedy run, [1, steps], whatever EOS there is."""
    mask, step = inputs["attention_mask"], prefill(model, inputs)
    ids = [greedy(step.logits)]
    while len(ids) < steps:
        mask = append_one(mask)
        step = decode_step(model, ids[-1][:, None], step.cache, mask)
        ids.append(greedy(step.logits))
    return torch.stack(ids, dim=-1)


def uncached_ids(model, inputs, steps=STEPS):
    """Return the ids of a loop that runs everything again for each token, [1, steps]."""
    ids = inputs["input_ids"]
    with torch.inference_mode():
        for _ in range(steps):
            logits = model(ids, use_cache=False).logits[:, -1]
            ids = torch.cat([ids, greedy(logits)[:, None]], dim=-1)
    return ids[:, inputs["input_ids"].shape[1] :]


@pytest.fixture(scope="module")
def coarse():
    return tiny_model().to(torch.bfloat16)


# --- feeding the same tokens ----------------------------------------------------------------------


def test_forced_logits_are_those_of_the_models_own_run(model):
    inputs = random_inputs(8)
    ids = greedy_ids(model, inputs)
    assert torch.equal(forced(model, inputs, ids).argmax(dim=-1), ids)


def test_forced_tokens_are_fed_whatever_the_model_would_choose(model):
    inputs, ids = random_inputs(8), torch.tensor([[5, 6, 7]])
    logits = forced(model, inputs, ids)
    with torch.inference_mode():
        whole = torch.cat([inputs["input_ids"], ids], dim=-1)
        right = model(whole, use_cache=False).logits[:, 7:-1]
    assert not torch.equal(logits.argmax(dim=-1), ids)
    torch.testing.assert_close(logits, right, atol=1e-4, rtol=0)


def test_rows_of_a_padded_batch_are_forced_as_alone(model):
    rows = [random_inputs(3, seed=1), random_inputs(7, seed=2)]
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    batch = {
        name: torch.cat([torch.nn.functional.pad(rows[0][name], (4, 0)), rows[1][name]])
        for name in ("input_ids", "attention_mask")
    }
    alone = torch.cat([forced(model, row, ids[i : i + 1]) for i, row in enumerate(rows)])
    for program in (forced, forced_at_once):
        torch.testing.assert_close(program(model, batch, ids), alone, atol=1e-4, rtol=0)


@pytest.mark.parametrize("ids", [[5, 6], [[]], [[5], [6]]])
def test_ids_that_are_not_one_row_for_each_prompt_are_refused(model, ids):
    for program in (forced, forced_at_once):
        with pytest.raises(ValueError, match=r"token_ids must be \[1, T\] with T at least 1, not"):
            program(model, random_inputs(4), torch.tensor(ids, dtype=torch.long))


# --- cached and uncached --------------------------------------------------------------------------


@pytest.mark.parametrize("forward", [forced, forced_at_once])
@pytest.mark.parametrize("without", ["attention_mask", "input_ids"])
def test_a_prompt_without_ids_or_mask_is_refused(model, forward, without):
    inputs = random_inputs(8)
    del inputs[without]
    with pytest.raises(ValueError, match="must hold input_ids and attention_mask"):
        forward(model, inputs, torch.tensor([[1]]))


@pytest.mark.parametrize("forward", [forced, forced_at_once])
@pytest.mark.parametrize("ids", [[[1]], torch.tensor([[1.0]]), torch.tensor([[True]])])
def test_forced_tokens_that_are_no_ids_are_refused(model, forward, ids):
    with pytest.raises(ValueError, match="token ids must be a tensor of int64 or int32"):
        forward(model, random_inputs(8), ids)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cached_and_uncached_choose_the_same_ids_in_fp32(seed):
    model, inputs = tiny_model(seed), random_inputs(8, seed)
    ids = greedy_ids(model, inputs)
    assert torch.equal(ids, uncached_ids(model, inputs))
    found = difference(forced(model, inputs, ids)[0], forced_at_once(model, inputs, ids)[0])
    assert found.largest < 1e-3
    assert found.partings == ()
    assert len(found.errors) == STEPS


def first_parting(seed, steps=16):
    """Return a bf16 model, its prompt and ids, and the first step at which no cache differs."""
    model, inputs = tiny_model(seed).to(torch.bfloat16), random_inputs(8, seed)
    ids, others = greedy_ids(model, inputs, steps), uncached_ids(model, inputs, steps)
    differing = (ids != others)[0].nonzero()[:, 0].tolist()
    return model, inputs, ids, differing[0] + 1 if differing else None


def test_the_first_divergence_in_bf16_is_a_near_tie_with_its_margin():
    """Cached and uncached part in free running; on the same tokens they part at that step."""
    runs = (first_parting(seed) for seed in (8, *range(40)))  # other machines, other seeds
    model, inputs, ids, first = next(run for run in runs if run[-1] is not None)
    whole = torch.cat([inputs["input_ids"], ids], dim=-1)
    with torch.inference_mode():
        uncached = [model(whole[:, :end], use_cache=False).logits[0, -1] for end in range(8, 24)]
    found = difference(forced(model, inputs, ids)[0], torch.stack(uncached))
    assert found.partings[0] == first
    assert first in found.open_steps
    assert found.margins[first - 1] <= 2 * found.errors[first - 1]
    assert found.verdict(logit_tolerance(torch.bfloat16)) == "rounding"
    with in_dtype(model, torch.float32):
        exact = forced(model, inputs, ids)[0, first - 1]
    best, second = exact.topk(2).values.tolist()
    assert best - second < logit_tolerance(torch.bfloat16), "in fp32 it is a near tie as well"


def test_two_logits_near_18_can_be_one_number_in_bf16():
    pair = torch.tensor([18.03, 18.06])
    assert pair.bfloat16().unique().numel() == 1
    assert pair.unique().numel() == 2


def test_a_wrong_position_is_a_bug_in_fp32(model):
    inputs = random_inputs(8)
    ids = greedy_ids(model, inputs, 6)
    right = forced(model, inputs, ids)[0]

    def late(module, args, kwargs):
        if kwargs["input_ids"].shape[1] == 1:
            kwargs["position_ids"] = kwargs["position_ids"] + 1
        return args, kwargs

    hook = model.register_forward_pre_hook(late, with_kwargs=True)
    wrong = forced(model, inputs, ids)[0]
    hook.remove()
    found = difference(right, wrong)
    assert found.errors[0] == 0
    assert found.verdict(1e-3) == "bug"


# --- what follows from two rows of logits ---------------------------------------------------------


def test_errors_margins_and_choices_are_those_of_each_step():
    ours = torch.tensor([[1.0, 3.0, 2.5], [4.0, 0.0, 1.0], [2.0, 2.0, 0.0]])
    theirs = torch.tensor([[1.0, 2.75, 3.0], [4.5, 0.0, 1.0], [2.0, 2.0, 0.0]])
    found = difference(ours, theirs)
    assert found.errors == (0.5, 0.5, 0.0)
    assert found.margins == (0.5, 3.0, 0.0)
    assert found.choices == (1, 0, 0)
    assert found.other_choices == (2, 0, 0)
    assert found.largest == 0.5
    assert found.partings == (1,)
    assert found.open_steps == (1, 3)  # an exact tie is open even to an error of 0


@pytest.mark.parametrize("error", [0.01, 0.3, 2.0])
def test_programs_part_at_open_steps_only(error):
    """Each of two logits can move by the error: a margin above twice the error is safe."""
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(500, 20, generator=generator)
    theirs = ours + error * (2 * torch.rand(500, 20, generator=generator) - 1)
    found = difference(ours, theirs)
    assert found.partings
    assert set(found.partings) <= set(found.open_steps)
    beyond = [n for n in found.partings if found.margins[n - 1] > found.errors[n - 1]]
    assert beyond, "the error alone would be too small a bound"


def test_the_verdict_is_rounding_up_to_the_tolerance_and_a_bug_beyond():
    found = difference(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.5, 2.0]]))
    assert found.verdict(0.5) == "rounding"
    assert found.verdict(0.49) == "bug"
    with pytest.raises(ValueError, match="tolerance must be"):
        found.verdict(-1)


@pytest.mark.parametrize("step", [0, 1])
def test_a_logit_that_is_no_number_is_a_bug(step):
    wrong = torch.ones(2, 3)
    wrong[step, 0] = float("nan")
    found = difference(torch.ones(2, 3), wrong)
    assert found.verdict(1e9) == "bug"
    assert step + 1 in found.open_steps


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 4)), ((3,), (3,)), ((0, 3), (0, 3)), ((2, 1),) * 2]
)
def test_rows_that_cannot_be_compared_are_refused(shapes):
    with pytest.raises(ValueError, match=r"both must be \[T, V\]"):
        difference(*map(torch.zeros, shapes))


# --- another number format for a while ------------------------------------------------------------


def test_a_finer_format_holds_the_same_weights_there_and_back(coarse):
    before = copy.deepcopy(coarse.state_dict())
    inputs = random_inputs(8)
    logits = prefill(coarse, inputs).logits
    with in_dtype(coarse, torch.float32) as fine:
        assert fine is coarse
        assert fine.dtype == torch.float32
        for name, weights in fine.state_dict().items():
            assert torch.equal(weights, before[name].float())
        assert prefill(fine, inputs).logits.dtype == torch.float32
    assert coarse.dtype == torch.bfloat16
    assert torch.equal(prefill(coarse, inputs).logits, logits)


def test_the_format_comes_back_after_an_error(coarse):
    with pytest.raises(KeyError), in_dtype(coarse, torch.float32):
        raise KeyError
    assert coarse.dtype == torch.bfloat16


def test_weights_that_were_finer_than_the_others_are_the_same_numbers_afterwards(coarse):
    scale = coarse.model.norm.weight
    scale.data = torch.rand(scale.shape)  # fp32, as some models keep their norms
    before = scale.data.clone()
    with in_dtype(coarse, torch.float32):
        pass
    assert scale.dtype == torch.float32
    assert torch.equal(scale, before)
    assert coarse.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", ["float32", None, torch.complex64, torch.int64])
def test_what_is_no_format_for_weights_is_named(coarse, dtype):
    with (
        pytest.raises(ValueError, match=f"dtype must be .*, not {dtype!r}"),
        in_dtype(coarse, dtype),
    ):
        pass


def test_tables_that_were_finer_than_the_weights_stay_so():
    model = tiny_model()
    speeds = model.model.rotary_emb.inv_freq.clone()
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    with in_dtype(model, torch.float32):
        assert torch.equal(model.model.rotary_emb.inv_freq, speeds)
    assert torch.equal(model.model.rotary_emb.inv_freq, speeds)


@pytest.mark.parametrize(
    ("held", "wanted"),
    [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float16)],
)
def test_a_format_that_would_round_the_weights_is_refused(held, wanted):
    model = tiny_model().to(held)
    with pytest.raises(ValueError, match="cannot hold every number of"), in_dtype(model, wanted):
        pass
    assert model.dtype == held


def test_the_coarser_format_has_the_wider_tolerance():
    assert logit_tolerance(torch.float32) == 1e-3 < logit_tolerance(torch.bfloat16)
