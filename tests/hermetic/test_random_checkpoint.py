"""Random weights in a real model's form: they load and run like any other and say what they are."""

import hashlib

import pytest
import torch
from tests.tiny import tiny_config
from transformers import GenerationConfig

from inside_generate import generate, load, provenance
from inside_generate import random_checkpoint as making
from inside_generate.checkpoints import STAND_IN
from inside_generate.errors import InsideGenerateError
from inside_generate.getting.layout import check_layout
from inside_generate.home import model_directory
from inside_generate.models import identity

BASE = 300
CONFIG = tiny_config(bos_token_id=BASE, eos_token_id=BASE + 2, pad_token_id=BASE)
GENERATION = GenerationConfig(eos_token_id=[BASE + 2, BASE], pad_token_id=BASE, do_sample=True)
PROMPT = "What's for lunch today?"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return making.write_random_checkpoint(
        tmp_path_factory.mktemp("random") / "one", CONFIG, GENERATION
    )


def test_it_loads_and_answers_like_any_other_model(directory):
    check_layout(directory)
    tokenizer, model = load(directory, "cpu", "float32")
    trace = generate(model, tokenizer, PROMPT, max_new_tokens=5)
    assert 1 <= len(trace.generated_ids) <= 5
    assert model.generation_config.eos_token_id == [BASE + 2, BASE]


def test_it_says_what_it_is_wherever_a_model_is_named(directory):
    _, model = load(directory, "cpu", "float32")
    assert making.is_random(directory)
    assert identity(model).model_id.startswith("random weights (seed 0)")
    assert identity(model).name is None
    assert "random weights" in provenance(model)


def sums(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).digest() for path in folder.iterdir()}


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(directory, tmp_path):
    state = torch.get_rng_state()
    same = making.write_random_checkpoint(tmp_path / "same", CONFIG, GENERATION)
    other = making.write_random_checkpoint(tmp_path / "other", CONFIG, GENERATION, seed=1)
    assert torch.equal(torch.get_rng_state(), state), "the caller's random numbers go on as before"
    assert sums(same) == sums(directory)
    assert sums(other)["model.safetensors"] != sums(directory)["model.safetensors"]
    assert sums(other)["tokenizer.json"] == sums(directory)["tokenizer.json"]


def test_its_weights_are_bf16_on_disk(directory):
    from safetensors import safe_open

    with safe_open(directory / "model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.bfloat16}  # noqa: SIM118


def test_its_control_tokens_have_the_ids_of_the_config_and_each_id_has_a_text(directory):
    tokenizer, _ = load(directory, "cpu", "float32")
    assert tokenizer.convert_tokens_to_ids(list(making.CONTROL)) == [BASE, BASE + 1, BASE + 2]
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (BASE + 2, BASE)
    assert len(tokenizer) == BASE + 3
    assert tokenizer.decode([299]) == " w299"
    text = "Mittagessen: 今天午饭吃什么?"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(text.encode("utf-8"))
    assert tokenizer.decode(ids) == text
    assert "<|im_start|>assistant\n" in tokenizer.apply_chat_template(
        [{"role": "user", "content": "soup"}], tokenize=False, add_generation_prompt=True
    )


@pytest.fixture
def small_reference(monkeypatch):
    """Let the reference be as small as the tests' own model."""
    monkeypatch.setattr(making, "reference_config", lambda: CONFIG)
    monkeypatch.setattr(making, "reference_generation_config", lambda: GENERATION)


def test_it_is_made_once_and_made_again_when_it_is_damaged(small_reference):
    first = making.random_checkpoint()
    made = (first / "model.safetensors").stat().st_mtime_ns
    assert making.random_checkpoint() == first
    assert (first / "model.safetensors").stat().st_mtime_ns == made
    with (first / "model.safetensors").open("ab") as file:
        file.write(b"!")
    assert making.random_checkpoint() == first
    assert (first / "model.safetensors").stat().st_mtime_ns != made
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_auto_never_finds_it(small_reference):
    making.random_checkpoint()
    with pytest.raises(InsideGenerateError, match="there is no model"):
        load("auto")


def test_it_is_made_elsewhere_where_the_courses_folder_cannot_be_written(
    small_reference, monkeypatch, tmp_path
):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("INSIDE_GENERATE_HOME", str(tmp_path / "a file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    assert making.random_checkpoint().is_relative_to(tmp_path / "temporary")
    monkeypatch.setattr(making, "is_writable", lambda folder: False)
    monkeypatch.setattr(making, "is_random", lambda folder: False)
    with pytest.raises(OSError, match="no folder can be written for random weights"):
        making.random_checkpoint()


def test_the_tokenizer_of_a_model_whose_weights_are_missing_is_used(small_reference, tokenizer):
    lone = model_directory(STAND_IN)
    tokenizer.save_pretrained(lone)
    taken = making.random_checkpoint()
    assert (taken / "tokenizer.json").read_bytes() == (lone / "tokenizer.json").read_bytes()
