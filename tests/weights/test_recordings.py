"""The recorded prompts show, between them, all that the player is there to show."""

import pytest

import recordings
from inside_generate import generate, load
from inside_generate.checkpoints import CHECKPOINTS, STAND_IN, fetch_command
from inside_generate.finding import on_disk


@pytest.fixture(scope="module")
def runs():
    """The recorded prompts on the stand-in: on it they were chosen."""
    if on_disk(CHECKPOINTS[STAND_IN]) is None:
        pytest.skip(f"no stand-in on this disk; type `{fetch_command(STAND_IN)}`")
    tokenizer, model = load(STAND_IN, dtype="bfloat16")
    return [
        generate(model, tokenizer, prompt, max_new_tokens=recordings.LIMITS[name])
        for name, prompt in recordings.PROMPTS.items()
    ]


def is_partial(utf8: str) -> bool:
    try:
        bytes.fromhex(utf8).decode()
    except UnicodeDecodeError:
        return True
    return False


def test_one_recorded_run_ends_by_eos_and_one_by_the_limit(runs):
    assert {run.stop_reason for run in runs} == {"eos", "max_new_tokens"}


def test_one_recorded_run_has_a_character_that_is_split_over_tokens(runs):
    spelt = [{one.token_id: one.utf8 for one in run.spellings} for run in runs]
    pairs = zip(runs, spelt, strict=True)
    assert any(is_partial(utf8[one]) for run, utf8 in pairs for one in run.generated_ids)
