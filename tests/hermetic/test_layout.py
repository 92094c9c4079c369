"""Directories that are not loaded: refused in one line, before or while they are read."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny import tiny_model, tiny_tokenizer

from inside_generate.errors import InsideGenerateError
from inside_generate.models import load


@pytest.fixture
def directory(tmp_path):
    """A whole model directory, for a test to spoil."""
    tiny_tokenizer().save_pretrained(tmp_path / "some model")
    tiny_model().save_pretrained(tmp_path / "some model")
    return tmp_path / "some model"


def refuses(directory, message):
    """Check that ``load`` raises this, in one line."""
    with pytest.raises(InsideGenerateError, match=message) as caught:
        load(directory, "cpu", "float32")
    assert len(str(caught.value).splitlines()) == 1


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
