"""The check of the keywords in `00_the_whole_path` knows right from likely wrong."""

from collections import UserDict

import pytest
import torch

from inside_generate.exercises.checking import RIGHT, UNTRIED
from inside_generate.exercises.whole_path import check_equal_settings
from inside_generate.reference import reference_generation_config

EQUAL = {"max_new_tokens": 64, "do_sample": False, "repetition_penalty": 1.0}
PUBLISHED = reference_generation_config().eos_token_id

SETTINGS = {
    "right": (EQUAL, RIGHT),
    "EOS given as well": (EQUAL | {"eos_token_id": PUBLISHED}, RIGHT),
    "EOS in another order": (EQUAL | {"eos_token_id": set(PUBLISHED)}, RIGHT),
    "one beam said": (EQUAL | {"num_beams": 1}, RIGHT),
    "whole number": (EQUAL | {"repetition_penalty": 1}, RIGHT),
    "nothing": ({}, "it samples"),
    "no answer to sampling": (EQUAL | {"do_sample": None}, "it samples"),
    "penalty left on": ({"max_new_tokens": 64, "do_sample": False}, "still on"),
    "penalty of zero": (EQUAL | {"repetition_penalty": 0.0}, "leaves it alone"),
    "penalty in words": (EQUAL | {"repetition_penalty": "none"}, "leaves it alone"),
    "a tensor with one number": (EQUAL | {"repetition_penalty": torch.tensor(1.0)}, RIGHT),
    "one EOS": (EQUAL | {"eos_token_id": PUBLISHED[0]}, "other ids"),
    "no EOS": (EQUAL | {"eos_token_id": []}, "other ids"),
    "EOS in words": (EQUAL | {"eos_token_id": {"<|im_end|>"}}, "other ids"),
    "no limit": ({"do_sample": False, "repetition_penalty": 1.0}, "the limit"),
    "beams": (EQUAL | {"num_beams": 4}, "beams"),
    "misspelt": (EQUAL | {"dosample": False}, "no setting 'dosample'"),
    "a number for a name": ({1: 2}, "no setting 1"),
    "a tensor": (EQUAL | {"repetition_penalty": torch.ones(2)}, "leaves it alone"),
    "a dictionary that raises": (UserDict.__new__(UserDict), "raised AttributeError"),
    "a list": ([EQUAL], "a dictionary"),
    "untouched": (..., UNTRIED),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_check_knows_equal_settings_from_others(name):
    settings, said = SETTINGS[name]
    assert said in check_equal_settings(settings)
