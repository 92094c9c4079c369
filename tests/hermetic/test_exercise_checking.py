"""Whatever a learner's value or function is, a check answers in one line and does not raise."""

import importlib
import inspect
import pkgutil
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from tests.tiny import random_inputs, tiny_model, tiny_tokenizer

from inside_generate import exercises, generate, run_record
from inside_generate.exercises import checking
from inside_generate.exercises.checking import RIGHT, UNTRIED, attempt, check_table


class Faulty:
    """An object of which nothing works."""

    __hash__ = None

    def _refuse(self, *_):
        raise ZeroDivisionError("two\nlines \ud800")

    __repr__ = __eq__ = __int__ = __float__ = __iter__ = tolist = _refuse


class FaultyError(Exception):
    def __str__(self):
        raise RuntimeError("no message")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def endless():
    value = []
    value.append(value)
    return value


def raising():
    yield ("a", "b")
    raise ValueError("while it was read")


def complain():
    raise FaultyError


GARBAGE = {
    "many digits": 10**5000,
    "too large for a float": (("a", "b"), 10**400),
    "not a number": float("nan"),
    "complex": 1j,
    "half a character": "\ud800",
    "fractions": [0.5, 1.5],
    "faulty": Faulty(),
    "a list of faulty ones": [Faulty()],
    "faulty pairs": ((Faulty(), "b"), Faulty()),
    "a faulty truth": (" Soup.", Faulty()),
    "nested": nested(3000),
    "endless": endless(),
    "a tensor": torch.tensor([1, 2]),
    "an empty tensor": torch.tensor([]),
    "an array": np.array([1, 2]),
    "a sparse tensor": torch.zeros(3, 3).to_sparse(),
    "a tensor without numbers": torch.zeros(3, 3, device="meta"),
    "complex tensors": (torch.zeros(2, 3, dtype=torch.int8), torch.tensor([[1j], [1j]])),
    "a number that cannot be compared": Decimal("sNaN"),
    "a run of faulty parts": dict.fromkeys(
        ("input_ids", "generated_token_ids", "top_k"), endless()
    ),
}

FUNCTIONS = [lambda *_: raising(), lambda *_: complain()]

CHECKS = {
    f"{module.name}.{name}": check
    for module in pkgutil.iter_modules(exercises.__path__)
    for name, check in vars(importlib.import_module(f"{exercises.__name__}.{module.name}")).items()
    if name.startswith("check_") and check.__module__.endswith(f".{module.name}")
    if module.name != "checking"
}


# These ask for a value, and a function is no answer.
OF_VALUES = {
    "breaking_it.check_faults",
    "breaking_it.check_found",
    "number_formats.check_counting_limit",
    "reference_run.check_null_keys",
    "when_numbers_disagree.check_three_numbers",
    "whole_loop.check_stop_reason",
    "whole_path.check_equal_settings",
}


@pytest.fixture(scope="module")
def given():
    """What checks take beside the learner's part, by the names of their parameters."""
    model, tokenizer = tiny_model(), tiny_tokenizer()
    trace = generate(model, tokenizer, "soup", max_new_tokens=3, eos_token_ids=())
    return {
        "model": model,
        "tokenizer": tokenizer,
        "config": model.config,
        "inputs": random_inputs(4),
        "record": run_record(trace, model),
        "count": 3,
        "prompt_ids": trace.prompt_ids,
        "expected": trace.generated_ids,
    }


def others(check, given) -> list:
    """What a check takes beside the learner's part."""
    return [given[parameter] for parameter in list(inspect.signature(check).parameters)[1:]]


@pytest.mark.parametrize("name", CHECKS)
def test_an_untouched_cell_is_told_so(name, given):
    check = CHECKS[name]
    assert check(..., *others(check, given)) == UNTRIED
    if name not in OF_VALUES:
        assert check(lambda *_: ..., *others(check, given)) == UNTRIED


@pytest.mark.parametrize("name", CHECKS)
def test_garbage_gets_a_line_that_can_be_printed(name, given):
    check = CHECKS[name]
    returned = [lambda *_, value=value: value for value in GARBAGE.values()]
    for learners in (*GARBAGE.values(), *returned, *FUNCTIONS):
        said = check(learners, *others(check, given))
        assert said.startswith("Not yet")
        assert "\n" not in said
        assert len(said.encode()) < 2000


# --- its helpers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found",
    [[1, 2], (1, 2), torch.tensor([1, 2]), np.array([1, 2]), range(1, 3), (torch.tensor(1), 2.0)],
    ids=str,
)
def test_equal_values_are_the_same_in_any_form(found):
    assert checking.same(found, (1, 2))
    assert not checking.same(found, (1, 3))
    assert not checking.same(found, 1)


def test_a_generator_is_read_where_what_it_raises_becomes_a_hint():
    assert attempt(lambda: (n for n in (1, 2))) == ([1, 2], None)
    assert attempt(raising) == (None, "your function raised ValueError: while it was read")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a\n  b"), "ValueError: a b"),
        (AssertionError(), "AssertionError"),
        (FaultyError(), "FaultyError: a message that cannot be shown"),
    ],
)
def test_an_exceptions_message_is_one_line(error, said):
    assert checking.raised(error) == said


def test_a_value_is_shown_on_one_short_line():
    assert checking.shown("two\nlines") == r"'two\nlines'"
    assert "\n" not in checking.shown(torch.zeros(3, 3))
    assert len(checking.shown("x" * 9999)) == checking.LONGEST + 1
    assert checking.shown(Faulty()) == "a value of type Faulty that cannot be shown"
    assert checking.shortened("\ud800") == r"\ud800"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, True),
        (np.False_, False),
        (torch.tensor([True]), True),
        (1, None),
        ([], None),
        ([True], None),
        (Faulty(), None),
    ],
)
def test_only_true_and_false_are_a_truth(value, found):
    assert checking.truth(value) is found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3, 3.0),
        (Fraction(1, 2), 0.5),
        (np.int64(3), 3.0),
        (np.float32(1.5), 1.5),
        (torch.tensor(3), 3.0),
        (torch.tensor([1.5], requires_grad=True), 1.5),
        (True, None),
        (torch.tensor(True), None),
        ("3", None),
        (3 + 0j, None),
        ([3], None),
        (10**400, None),
        (Faulty(), None),
    ],
    ids=lambda part: type(part).__name__,
)
def test_one_number_is_read_from_what_holds_one(value, found):
    assert checking.number(value) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3, [3]),
        ([[1, 2], [3.0, 4.0]], [1, 2, 3, 4]),
        ([torch.tensor([1]), np.int64(2)], [1, 2]),
        (torch.tensor([1.5]), None),
        ([1, 2.5], None),
        ([float("nan")], None),
        (["1"], None),
        (None, None),
    ],
    ids=str,
)
def test_ids_are_whole_numbers_and_nothing_is_cut_off(value, found):
    assert checking.whole_numbers(value) == found


def test_a_real_tensor_is_made_of_arrays_and_lists_and_keeps_its_dtype():
    assert checking.real_tensor(np.zeros(2, dtype=np.float16)).dtype == torch.float16
    assert checking.real_tensor(torch.zeros(2, 2).to_sparse()).tolist() == [[0.0] * 2] * 2
    read_only = np.broadcast_to(np.ones(1), (2,))
    assert checking.real_tensor(read_only).tolist() == [1.0, 1.0]
    for value in (torch.tensor(1j), torch.zeros(2, device="meta"), "3", [[1], [1, 2]], Faulty()):
        assert checking.real_tensor(value) is None


def test_a_table_compares_tensors_and_lists_as_one():
    cases = {(1,): (1, 0), (2,): (1, 1)}
    assert check_table(lambda n: torch.tensor([1, n - 1]), cases, {}) == RIGHT
    mistaken = {"one too many": lambda n: (1, n)}
    assert "one too many" in check_table(lambda n: np.array([1, n]), cases, mistaken)
