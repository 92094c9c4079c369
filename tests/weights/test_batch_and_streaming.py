"""Several prompts at once and text piece by piece, on real weights and real tokenizers."""

import random

import pytest
from transformers import AutoTokenizer

from inside_generate import decode_text, generate, generate_batch, text_pieces
from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, fetch_command
from inside_generate.finding import on_disk

PROMPTS = ["What's for lunch today?", "今天午饭吃什么?", "Say yes."]


def test_each_row_of_a_batch_is_the_run_of_its_prompt_alone(fp32):
    tokenizer, model = fp32
    together = generate_batch(model, tokenizer, PROMPTS, max_new_tokens=14)
    alone = [generate(model, tokenizer, prompt, max_new_tokens=14) for prompt in PROMPTS]
    assert len({len(trace.prompt_ids) for trace in alone}) > 1  # so there is padding
    assert [row.generated_ids for row in together] == [trace.generated_ids for trace in alone]
    assert [row.stop_reason for row in together] == [trace.stop_reason for trace in alone]


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("name", sorted(set(CHECKPOINTS) - {REFERENCE}))
def test_pieces_join_to_the_text_for_any_ids(name, skip):
    """Random ids, too, most of whose bytes are no characters."""
    directory = on_disk(CHECKPOINTS[name])
    if directory is None:
        pytest.skip(f"no {name} on this disk; type `{fetch_command(name)}`")
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    chance = random.Random(0)
    for length in range(1, 60):
        ids = [chance.randrange(len(tokenizer)) for _ in range(length)]
        pieces = list(text_pieces(tokenizer, ids, skip_special_tokens=skip))
        assert "".join(pieces) == decode_text(tokenizer, ids, skip_special_tokens=skip)
