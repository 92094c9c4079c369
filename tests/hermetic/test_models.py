"""A model is found and loaded from this disk, whole, or refused in one line."""

import gc
import hashlib
import shutil
import weakref

import pytest
import torch
from huggingface_hub.utils import are_progress_bars_disabled as hub_bars_off
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars
from safetensors.torch import load_file, save_file
from tests.tiny import tiny_model, tiny_tokenizer
from transformers.utils import logging

from inside_generate import models
from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN
from inside_generate.errors import InsideGenerateError
from inside_generate.finding import find
from inside_generate.getting.integrity import MANIFEST, write_manifest
from inside_generate.home import home, model_directory
from inside_generate.models import identity, load


def save(folder, **config):
    """Make a whole model directory."""
    tiny_tokenizer().save_pretrained(folder)
    tiny_model(**config).save_pretrained(folder)
    return folder


@pytest.fixture
def directory(tmp_path):
    return save(tmp_path / "some model")


@pytest.fixture
def install(tmp_path):
    """Return a function that puts a tiny model where a fetched one of that name would lie."""

    def put(name):
        checkpoint = CHECKPOINTS[name]
        folder = save(model_directory(name))
        write_manifest(folder, name, checkpoint.model_id, checkpoint.revision)
        return folder

    return put


# Finding


def test_auto_takes_the_reference_then_the_stand_in_then_the_small_one(install):
    for name in (SMALL, STAND_IN, REFERENCE):
        folder = install(name)
        assert find() == folder == find(name)


def test_with_nothing_on_disk_the_error_gives_the_command():
    with pytest.raises(InsideGenerateError, match="type `python -m inside_generate fetch`"):
        find()
    with pytest.raises(InsideGenerateError, match=f"fetch --model {SMALL}`"):
        find(SMALL)


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(
        InsideGenerateError, match=r"unknown model 'qwen3': .* auto, qwen2\.5-0\.5b"
    ):
        find("qwen3")
    with pytest.raises(InsideGenerateError, match="neither a directory nor"):
        find(tmp_path / "nothing here")


def test_a_name_that_no_file_can_have_is_refused_in_a_short_line():
    with pytest.raises(InsideGenerateError, match=r"looked for: .*; name another$") as e:
        find("a" * 5000)
    assert len(str(e.value)) < 250


def test_environment_names_the_model_and_the_argument_wins(install, directory, monkeypatch):
    folder = install(SMALL)
    monkeypatch.setenv("INSIDE_GENERATE_MODEL", str(directory))
    assert find() == directory
    assert find(SMALL) == folder


def test_a_name_wins_over_a_folder_of_that_name(install, tmp_path, monkeypatch):
    folder, other = install(SMALL), save(tmp_path / SMALL)
    monkeypatch.chdir(tmp_path)
    assert find(SMALL) == folder
    assert find(f"./{SMALL}") == other


def test_home_must_be_an_absolute_path(monkeypatch):
    monkeypatch.setenv("INSIDE_GENERATE_HOME", "models")
    with pytest.raises(
        InsideGenerateError, match="'models'; set it to an absolute path, such as /"
    ):
        home()


@pytest.mark.parametrize("harm", ["shorter", "changed", "gone", "no manifest"])
def test_a_fetched_model_that_changed_since_is_refused(install, harm):
    weights = install(SMALL) / "model.safetensors"
    content = weights.read_bytes()
    if harm == "shorter":
        weights.write_bytes(content[:-1])
    if harm == "changed":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    if harm == "gone":
        weights.unlink()
    if harm == "no manifest":
        (weights.parent / MANIFEST).write_text("{", encoding="utf-8")
    said = {"shorter": "bytes instead of", "changed": "sha256", "gone": "missing"}.get(harm, "not")
    for model in (SMALL, "auto"):
        with pytest.raises(
            InsideGenerateError, match=f"damaged: .*{said}.* fetch --model {SMALL}`"
        ):
            find(model)


# Loading


def test_load_gives_tokenizer_and_model_in_eval_mode(directory):
    tokenizer, model = load(directory, "cpu", "float32")
    assert len(tokenizer) == len(tiny_tokenizer())
    assert not model.training
    assert (model.device.type, model.dtype) == ("cpu", torch.float32)
    for name, values in tiny_model().state_dict().items():
        assert torch.equal(model.state_dict()[name], values)


def test_loading_twice_gives_the_same_two_objects(directory, monkeypatch):
    first = load(directory, "cpu", "float32")
    second = load(str(directory), "cpu", torch.float32)
    assert first[0] is second[0]
    assert first[1] is second[1]
    assert load(directory, "cpu", "bfloat16")[1] is not first[1]


def test_nothing_keeps_a_model_alive_that_nobody_holds(directory):
    model = load(directory, "cpu", "float32")[1]
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None
    assert not any(name == str(directory) for name in map(str, models._loaded))


def test_a_model_that_was_changed_in_place_is_loaded_anew(directory):
    model = load(directory, "cpu", "float32")[1]
    model.bfloat16()
    assert load(directory, "cpu", "float32")[1].dtype is torch.float32


def test_a_model_left_in_training_mode_comes_back_in_eval_mode(directory):
    model = load(directory, "cpu", "float32")[1]
    model.train()
    again = load(directory, "cpu", "float32")[1]
    assert again is model
    assert not again.training


def test_other_weights_in_the_same_place_are_another_model(directory):
    first = load(directory, "cpu", "float32")[1]
    tiny_model(seed=1).save_pretrained(directory)
    second = load(directory, "cpu", "float32")[1]
    assert second is not first
    assert torch.equal(second.lm_head.weight, tiny_model(seed=1).lm_head.weight)


def test_loading_is_silent_and_changes_no_setting_for_good(directory, capfd):
    def switches():
        return logging.get_verbosity(), logging.is_progress_bar_enabled(), hub_bars_off()

    before, model = switches(), load(directory, "cpu", "float32")
    assert switches() == before == (logging.WARNING, True, False)
    assert capfd.readouterr() == ("", "")
    disable_progress_bars()
    try:
        del model
        load(directory, "cpu", "float32")
        assert switches() == (logging.WARNING, True, True)
    finally:
        enable_progress_bars()


def test_fp16_that_was_not_asked_for_gives_way_to_fp32_where_it_overflows(directory, monkeypatch):
    monkeypatch.setattr(models, "choose_dtype", lambda dtype, device: (torch.float16, "a test"))
    assert load(directory, "cpu", "auto")[1].dtype is torch.float16
    weights = load_file(directory / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"] * 1e4
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    model = load(directory, "cpu", "auto")[1]
    assert model.dtype is torch.float32
    assert load(directory, "cpu", "auto")[1] is model
    assert load(directory, "cpu", "float16")[1].dtype is torch.float16  # asked for: as asked


def test_a_bad_device_is_refused_before_anything_is_looked_for():
    with pytest.raises(InsideGenerateError, match="unknown device 'gpu'"):
        load("no such model", device="gpu")


# Identity


def test_identity_of_a_fetched_model_is_the_checkpoints(install):
    folder = install(STAND_IN)
    who = identity(load(STAND_IN, "cpu", "float32")[1])
    known = CHECKPOINTS[STAND_IN]
    assert (who.model_id, who.revision) == (known.model_id, known.sha256)
    assert (who.name, who.directory) == (STAND_IN, folder)


def test_identity_of_a_path_is_the_sum_of_its_weights(directory):
    who = identity(load(directory, "cpu", "float32")[1])
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    assert (who.model_id, who.revision) == (str(directory), digest)
    assert (who.name, who.directory) == (None, directory)


def test_identity_of_shards_is_the_sum_of_their_sums(directory):
    (directory / "model.safetensors").unlink()
    tiny_model().save_pretrained(directory, max_shard_size="100KB")
    shards = sorted(directory.glob("model-*.safetensors"))
    assert len(shards) > 1
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in shards]
    who = identity(load(directory, "cpu", "float32")[1])
    assert who.revision == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_identity_of_a_model_made_in_memory_says_so():
    who = identity(tiny_model())
    assert (who.model_id, who.revision) == ("Qwen2ForCausalLM made in memory", None)
    assert who.directory is None


def test_identity_follows_the_files_and_not_what_was_asked_for(install, tmp_path):
    copy = shutil.copytree(install(SMALL), tmp_path / "copy")
    assert identity(load(copy, "cpu", "float32")[1]).name == SMALL
