"""The facts about the three models that everything else rests on."""

import json
from importlib import resources

import pytest
from transformers import AutoConfig, GenerationConfig

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, WEIGHTS

FACTS = resources.files("inside_generate") / "data" / REFERENCE


def test_the_reference_is_the_articles_revision():
    reference = CHECKPOINTS[REFERENCE]
    assert next(iter(CHECKPOINTS)) == REFERENCE
    assert reference.revision == "7ae557604adf67be50417f59c2c2f167def9a775"
    assert reference.size_bytes == 988_097_824
    assert reference.sha256.startswith("fdf756fa7fcbe740")
    assert not any(name.endswith((".py", ".bin", ".pt")) for name in reference.files)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_every_checkpoint_states_origin_licence_and_difference(checkpoint):
    assert checkpoint.licence == "Apache-2.0"
    assert checkpoint.origin.endswith(".")
    assert checkpoint.difference.endswith(".")
    assert len(checkpoint.sha256) == 64
    assert checkpoint.disk_bytes > checkpoint.size_bytes
    assert checkpoint.source == "hub" or checkpoint.revision == checkpoint.sha256


def test_the_references_config_is_kept_as_facts():
    config = AutoConfig.from_pretrained(str(FACTS / "config.json"))
    assert config.model_type == "qwen2"
    assert (config.num_hidden_layers, config.hidden_size, config.vocab_size) == (24, 896, 151936)
    assert (config.num_attention_heads, config.num_key_value_heads) == (14, 2)
    assert config.tie_word_embeddings
    assert (config.rms_norm_eps, config.rope_parameters["rope_theta"]) == (1e-6, 1e6)
    assert json.loads((FACTS / "config.json").read_text("utf-8"))["torch_dtype"] == "bfloat16"


def test_the_references_generation_config_has_a_penalty_and_two_eos_ids():
    settings = json.loads((FACTS / "generation_config.json").read_text("utf-8"))
    config = GenerationConfig(**settings)
    assert config.eos_token_id == [151645, 151643]
    assert config.repetition_penalty == 1.1
    assert (config.do_sample, config.temperature, config.top_p, config.top_k) == (
        True,
        0.7,
        0.8,
        20,
    )


def test_the_references_weights_come_last_so_that_a_small_file_fails_first():
    assert CHECKPOINTS[REFERENCE].files[-1] == WEIGHTS
