"""A model is found and loaded from this disk, whole, or refused in one line."""

import gc
import hashlib
import json
import logging
import shutil
import weakref

import pytest
import torch
from huggingface_hub.utils import are_progress_bars_disabled
from safetensors.torch import load_file, save_file
from tests.tiny import tiny_model, tiny_tokenizer
from transformers.utils import logging as transformers_logging

from inside_generate import models
from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN
from inside_generate.errors import InsideGenerateError
from inside_generate.home import home, model_directory
from inside_generate.integrity import MANIFEST, write_manifest
from inside_generate.models import find, identity, load


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


def refuses(directory, message):
    """Check that ``load`` raises this, in one line."""
    with pytest.raises(InsideGenerateError, match=message) as caught:
        load(directory, "cpu", "float32")
    assert len(str(caught.value).splitlines()) == 1


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
    for model in (SMALL, "auto"):
        with pytest.raises(InsideGenerateError, match=f"is damaged: .* fetch --model {SMALL}`"):
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
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    hub_bars, level = are_progress_bars_disabled(), logging.getLogger("transformers").level
    load(directory, "cpu", "float32")
    assert capfd.readouterr() == ("", "")
    assert before == (
        transformers_logging.get_verbosity(),
        transformers_logging.is_progress_bar_enabled(),
    )
    assert (hub_bars, level) == (
        are_progress_bars_disabled(),
        logging.getLogger("transformers").level,
    )


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


# Refusing


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    refuses(tmp_path, r"not a model directory: it has no config\.json")


def test_pickles_are_never_loaded(directory):
    (directory / "model.safetensors").unlink()
    refuses(directory, r"has no model\.safetensors")
    torch.save({}, directory / "pytorch_model.bin")
    refuses(directory, r"as pickles \(pytorch_model\.bin\).* only safetensors are loaded")


@pytest.fixture
def trap(directory, tmp_path):
    """Put Python code into the checkpoint that leaves a trace if it is ever run."""
    trace = tmp_path / "it ran"
    (directory / "own.py").write_text(f"open({str(trace)!r}, 'w')\n", encoding="utf-8")

    def name_code_in(file, **entries):
        config = json.loads((directory / file).read_text("utf-8"))
        (directory / file).write_text(json.dumps(config | entries), encoding="utf-8")

    yield name_code_in
    assert not trace.exists()


def test_an_architecture_with_code_of_its_own_is_refused(directory, trap):
    trap("config.json", model_type="own", auto_map={"AutoConfig": "own.C", "AutoModel": "own.M"})
    refuses(directory, r"needs Python code of its own \(auto_map in config\.json\)")


def test_a_known_architecture_is_loaded_without_the_code_that_auto_map_offers(directory, trap):
    trap("config.json", auto_map={"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"})
    trap(
        "tokenizer_config.json", tokenizer_class="OwnT", auto_map={"AutoTokenizer": ["own.T", None]}
    )
    tokenizer, model = load(directory, "cpu", "float32")
    assert type(model).__name__ == "Qwen2ForCausalLM"
    assert tokenizer("bread")["input_ids"] == tiny_tokenizer()("bread")["input_ids"]


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_truncated_weights_are_refused(directory, kept):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refuses(directory, "safetensors.*download it again")


def test_a_missing_shard_is_named(directory):
    tiny_model().save_pretrained(directory, max_shard_size="100KB")
    (directory / "model.safetensors").unlink(missing_ok=True)
    load(directory, "cpu", "float32")
    shard = sorted(directory.glob("model-*.safetensors"))[1]
    shard.unlink()
    refuses(directory, f"lacks {shard.name}")


def test_missing_weights_are_not_made_up(directory):
    weights = load_file(directory / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    refuses(directory, r"lacks weights of the model .*: 1, such as model\.layers\.1\.mlp\.up")


def test_weights_of_another_shape_are_refused(directory):
    config = json.loads((directory / "config.json").read_text("utf-8"))
    config["intermediate_size"] = 128
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    refuses(directory, r"has misshapen weights .*: 6, such as model\.layers\.0\.mlp\.down_proj")


def test_a_model_without_a_tokenizer_is_refused(directory):
    (directory / "tokenizer.json").unlink()  # the settings alone would make an empty one
    refuses(directory, r"has no tokenizer; put tokenizer\.json beside")


@pytest.mark.parametrize(
    "text",
    ["{half", "[]", "{}", '{"model_type": "no such kind"}', '{"model_type": "t5"}'],
)
def test_a_config_that_makes_no_sense_is_refused(directory, text):
    (directory / "config.json").write_text(text, encoding="utf-8")
    refuses(directory, r"config\.json|no such kind|T5Config")


def test_a_config_that_contradicts_itself_is_refused(directory):
    config = json.loads((directory / "config.json").read_text("utf-8"))
    config["num_hidden_layers"] = 3
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    refuses(directory, "num_hidden_layers")


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


# Facts


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
