"""Where the loop ends: EOS ids in every form, the checkpoint's own, and the limit."""

import numpy as np
import pytest
import torch
from tests.tiny import tiny_model

from inside_generate import encode, generate, stream
from inside_generate.stopping import as_id_set, resolve_eos_token_ids


@pytest.fixture(scope="module")
def endless():
    """A model whose generation config names no EOS, nor does its config."""
    return tiny_model(generation={"eos_token_id": None}, eos_token_id=None)


def ids_without_eos(model, tokenizer, count=12):
    return generate(model, tokenizer, "soup", max_new_tokens=count, eos_token_ids=[]).generated_ids


@pytest.mark.parametrize(
    "form",
    [
        lambda i: i,
        lambda i: [i, 9],
        lambda i: (9, i),
        lambda i: {i},
        lambda i: frozenset({9, i}),
        lambda i: torch.tensor(i),
        lambda i: torch.tensor([9, i]),
        lambda i: torch.tensor([[i]], dtype=torch.int32),
        lambda i: iter([i]),
        lambda i: np.int64(i),
        lambda i: [np.int32(i)],
        lambda i: np.array([9, i]),
        lambda i: np.array(i),
    ],
    ids=[
        *("int", "list", "tuple", "set", "frozenset", "tensor 0-d", "tensor", "tensor 2-d"),
        *("iterator", "numpy int", "list of numpy ints", "numpy array", "numpy 0-d"),
    ],
)
def test_eos_ids_are_taken_in_every_usual_form(model, tokenizer, form):
    ids = ids_without_eos(model, tokenizer)
    trace = generate(model, tokenizer, "soup", max_new_tokens=12, eos_token_ids=form(ids[4]))
    assert trace.generated_ids == ids[:5]
    assert trace.stop_reason == "eos"
    assert ids[4] in trace.eos_token_ids
    assert all(type(index) is int for index in trace.eos_token_ids)


@pytest.mark.parametrize(
    "bad", [-1, True, [True], 1.5, [2.0], "</s>", ["2"], b"2", {2: 2}, [[2]], torch.tensor([1.0])]
)
def test_an_eos_id_that_is_no_whole_number_is_refused(model, tokenizer, forwards, bad):
    calls = forwards(model)
    with pytest.raises(ValueError, match="an EOS id must be a whole number of at least 0, not"):
        generate(model, tokenizer, "soup", eos_token_ids=bad)
    assert not calls


def test_none_stops_at_each_id_of_the_generation_config(tokenizer):
    plain = ids_without_eos(tiny_model(), tokenizer)
    for index in (2, 5):
        stops = [tokenizer.eos_token_id, plain[index], 7]
        model = tiny_model(generation={"eos_token_id": stops})
        trace = generate(model, tokenizer, "soup", max_new_tokens=12)
        assert trace.generated_ids == plain[: index + 1]
        assert trace.stop_reason == "eos"
        assert trace.eos_token_ids == sorted(stops)


def test_none_stops_where_the_library_stops(tokenizer):
    stop = ids_without_eos(tiny_model(), tokenizer)[5]
    model = tiny_model(generation={"eos_token_id": [tokenizer.eos_token_id, stop]})
    inputs = encode(tokenizer, "soup")
    theirs = model.generate(**inputs, do_sample=False, repetition_penalty=1.0, max_new_tokens=12)
    trace = generate(model, tokenizer, "soup", max_new_tokens=12)
    assert trace.generated_ids == theirs[0, inputs["input_ids"].shape[1] :].tolist()
    assert len(trace.steps) == 6


@pytest.mark.filterwarnings("ignore:.*EOS ids")
def test_an_id_that_only_the_config_names_does_not_stop_the_loop_nor_the_library(tokenizer):
    stop = ids_without_eos(tiny_model(), tokenizer)[3]
    model = tiny_model(generation={"eos_token_id": tokenizer.eos_token_id}, eos_token_id=stop)
    inputs = encode(tokenizer, "soup")
    theirs = model.generate(**inputs, do_sample=False, repetition_penalty=1.0, max_new_tokens=8)
    trace = generate(model, tokenizer, "soup", max_new_tokens=8)
    assert trace.generated_ids == theirs[0, inputs["input_ids"].shape[1] :].tolist()
    assert stop in trace.generated_ids
    assert trace.stop_reason == "max_new_tokens"


@pytest.mark.parametrize("where", ["argument", "generation config"])
def test_an_eos_id_that_the_model_does_not_have_is_refused(tokenizer, forwards, where):
    """The loop would run to the limit each time, and nobody would know why."""
    inside = where == "generation config"
    model = tiny_model(generation={"eos_token_id": [5, 352]}) if inside else tiny_model()
    calls = forwards(model)
    for run in (generate, lambda *rest, **more: next(stream(*rest[:2], encode(*rest[1:]), **more))):
        with pytest.raises(ValueError, match=r"EOS ids \[352\] are not among the model's 0 to 351"):
            run(model, tokenizer, "soup", eos_token_ids=None if inside else [5, 352])
    assert not calls


def test_a_model_without_a_generation_config_has_no_eos_of_its_own(tokenizer):
    tokenizer.eos_token = None
    model = tiny_model(eos_token_id=None)
    model.generation_config = None
    assert resolve_eos_token_ids(None, model, tokenizer) == frozenset()


def test_what_is_no_model_is_named(model, tokenizer):
    with pytest.raises(ValueError, match=r"has no config: .*load\(\) returns the tokenizer first"):
        resolve_eos_token_ids(None, tokenizer, model)


def test_a_model_without_eos_runs_to_the_limit(endless, tokenizer):
    tokenizer.eos_token = None
    trace = generate(endless, tokenizer, "soup", max_new_tokens=9)
    assert len(trace.steps) == 9
    assert trace.stop_reason == "max_new_tokens"
    assert trace.eos_token_ids == []


def test_eos_as_the_first_token_ends_the_run_after_prefill(model, tokenizer, forwards):
    first = ids_without_eos(model, tokenizer, 1)
    calls = forwards(model)
    trace = generate(model, tokenizer, "soup", eos_token_ids=first)
    assert trace.generated_ids == first
    assert trace.stop_reason == "eos"
    assert len(calls) == 1


def test_eos_at_the_limit_is_eos(model, tokenizer):
    ids = ids_without_eos(model, tokenizer, 6)
    trace = generate(model, tokenizer, "soup", max_new_tokens=6, eos_token_ids=ids[5])
    assert trace.generated_ids == ids
    assert trace.stop_reason == "eos"


def test_one_token_short_of_eos_is_cut_by_the_limit(model, tokenizer):
    ids = ids_without_eos(model, tokenizer, 6)
    trace = generate(model, tokenizer, "soup", max_new_tokens=5, eos_token_ids=ids[5])
    assert trace.generated_ids == ids[:5]
    assert trace.stop_reason == "max_new_tokens"


def test_eos_counts_as_a_token_and_stays_in_the_ids_but_not_in_the_text(tokenizer):
    """A sampler that says four ordinary tokens and then ends the turn."""
    model = tiny_model()
    wanted = tokenizer("warm bread", add_special_tokens=False)["input_ids"]
    said = iter([*wanted, tokenizer.eos_token_id])
    trace = generate(model, tokenizer, "soup", sampler=lambda logits: torch.tensor([next(said)]))
    assert trace.generated_ids == [*wanted, tokenizer.eos_token_id]
    assert trace.text == "warm bread"
    assert trace.steps[-1].text == "<|im_end|>"
    assert trace.stop_reason == "eos"


# --- files that disagree --------------------------------------------------------------------------


def test_no_warning_where_the_files_agree(model, tokenizer):
    assert resolve_eos_token_ids(None, model, tokenizer) == {tokenizer.eos_token_id}


def test_no_warning_where_the_generation_config_names_more(tokenizer):
    model = tiny_model(generation={"eos_token_id": [tokenizer.eos_token_id, 0]})
    assert resolve_eos_token_ids(None, model, tokenizer) == {0, tokenizer.eos_token_id}


def test_a_warning_names_the_ids_that_only_the_config_has(tokenizer):
    eos = tokenizer.eos_token_id
    model = tiny_model(eos_token_id=[eos, 17], generation={"eos_token_id": eos})
    expected = (
        rf"config.json names the EOS ids \[17\].*only at those of the generation config, "
        rf"\[{eos}\].*pass eos_token_ids=\[17, {eos}\]"
    )
    with pytest.warns(UserWarning, match=expected):
        assert resolve_eos_token_ids(None, model, tokenizer) == {eos}


def test_a_warning_names_the_tokenizers_id_where_the_generation_config_lacks_it(tokenizer):
    eos = tokenizer.eos_token_id
    model = tiny_model(eos_token_id=5, generation={"eos_token_id": 5})
    with pytest.warns(UserWarning, match=rf"the tokenizer names the EOS ids \[{eos}\]"):
        resolve_eos_token_ids(None, model, tokenizer)


def test_the_union_that_the_warning_gives_can_be_passed_and_warns_no_more(tokenizer):
    ids = ids_without_eos(tiny_model(), tokenizer)
    eos = tokenizer.eos_token_id
    model = tiny_model(eos_token_id=ids[3], generation={"eos_token_id": eos})
    with pytest.warns(UserWarning, match="EOS ids") as warned:
        cut = generate(model, tokenizer, "soup", max_new_tokens=12)
    assert cut.stop_reason == "max_new_tokens"
    union = eval(str(warned[0].message).partition("eos_token_ids=")[2])
    trace = generate(model, tokenizer, "soup", max_new_tokens=12, eos_token_ids=union)
    assert trace.generated_ids == ids[:4]
    assert trace.stop_reason == "eos"


def test_where_three_files_name_three_ids_one_warning_offers_all_of_them(tokenizer):
    eos = tokenizer.eos_token_id
    model = tiny_model(eos_token_id=17, generation={"eos_token_id": 18})
    with pytest.warns(UserWarning, match="EOS ids") as warned:
        resolve_eos_token_ids(None, model, tokenizer)
    assert any(f"eos_token_ids=[17, 18, {eos}]" in str(warning.message) for warning in warned)


@pytest.mark.parametrize("run", [generate, lambda m, t, p: list(stream(m, t, encode(t, p)))])
def test_the_warning_points_at_the_callers_line_and_comes_once(tokenizer, run):
    model = tiny_model(eos_token_id=[tokenizer.eos_token_id, 17])
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    with pytest.warns(UserWarning, match="EOS ids") as warned:
        run(model, tokenizer, "soup")
    assert [warning.filename for warning in warned] == [__file__]


def test_no_eos_at_all_is_the_empty_set():
    assert as_id_set(None) == as_id_set([]) == frozenset()
