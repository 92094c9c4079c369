"""The recorded prompts show, between them, all that the player is there to show."""

import pytest

import recordings
from inside_generate import generate
from inside_generate.checkpoints import REFERENCE, SMALL
from inside_generate.models import identity


@pytest.fixture(scope="module")
def runs(bf16):
    tokenizer, model = bf16
    if identity(model).name == SMALL:
        pytest.skip("needs the reference or the stand-in: the small model answers otherwise")
    return [
        generate(model, tokenizer, prompt, max_new_tokens=recordings.LIMIT)
        for prompt in recordings.PROMPTS.values()
    ]


def is_partial(spelling) -> bool:
    try:
        return not bytes.fromhex(spelling.utf8).decode()
    except UnicodeDecodeError:
        return True


def test_one_recorded_run_ends_by_eos_and_one_by_the_limit(runs, bf16):
    if identity(bf16[1]).name == REFERENCE:
        pytest.skip("needs the stand-in: the prompts were chosen on it")
    assert {run.stop_reason for run in runs} == {"eos", "max_new_tokens"}


def test_one_recorded_run_has_a_character_that_is_split_over_tokens(runs):
    split = [
        one.token_id
        for run in runs
        for one in run.spellings
        if one.token_id in run.prompt_ids and is_partial(one)
    ]
    assert split
