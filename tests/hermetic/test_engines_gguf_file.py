"""A GGUF file of the same weights: read back number for number, and made anew when they change."""

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny import VOCABULARY, WINDOW, tiny_model
from transformers import LlamaConfig, LlamaForCausalLM

from inside_generate.engines import EngineError
from inside_generate.engines.gguf_file import check_config, quantised_file, weights_file, write
from inside_generate.errors import InsideGenerateError
from inside_generate.getting.unpack import field, read_weights
from inside_generate.home import home

DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


def tiny_llama(**changes):
    """A random two-layer Llama with biases where that architecture may have them."""
    sizes = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 3, "num_key_value_heads": 1, "attention_bias": True}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, **changes))
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
    return model.to(torch.bfloat16)


@pytest.fixture
def saved(tmp_path):
    """Return a function that saves a model and returns its folder."""

    def save(model, name="mine"):
        model.save_pretrained(tmp_path / name)
        return tmp_path / name

    return save


def read(path):
    reader = gguf.GGUFReader(path)
    return reader, {tensor.name: tensor for tensor in reader.tensors}


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_keep_their_bits_and_vectors_their_values(saved, dtype):
    model = tiny_model().to(getattr(torch, dtype))
    folder = saved(model)
    _, tensors = read(weights_file(folder, model.config))
    bits = load_file(folder / "model.safetensors")
    matrix, vector = "self_attn.q_proj.weight", "self_attn.q_proj.bias"
    stored = tensors["blk.1.attn_q.weight"]
    assert stored.tensor_type.name == DTYPES[dtype]
    ours = bits[f"model.layers.1.{matrix}"].view(torch.uint8).numpy()
    assert np.array_equal(stored.data.view(np.uint8), ours)
    stored = tensors["blk.1.attn_q.bias"]
    assert stored.tensor_type.name == "F32"
    assert np.array_equal(stored.data, bits[f"model.layers.1.{vector}"].float().numpy())


@pytest.mark.parametrize("make", [tiny_model, tiny_llama])
@pytest.mark.parametrize("tied", [False, True])
def test_every_weight_can_be_read_back_bit_for_bit(saved, make, tied):
    model = make(tie_word_embeddings=tied).to(torch.bfloat16)
    reader, tensors = read(weights_file(saved(model), model.config))
    assert ("output.weight" in tensors) is not tied
    for name, weight in read_weights(reader, model.config).items():
        assert torch.equal(weight, model.get_parameter(name)), name


def test_the_rows_of_llamas_queries_and_keys_stand_in_pairs(saved):
    model = tiny_llama()
    _, tensors = read(weights_file(saved(model), model.config))
    ours = model.model.layers[0].self_attn.q_proj.bias.float()  # 3 heads of 16 numbers
    theirs = torch.tensor(tensors["blk.0.attn_q.bias"].data)
    assert torch.equal(theirs[:16:2], ours[:8])
    assert torch.equal(theirs[1:16:2], ours[8:16])
    values = torch.tensor(tensors["blk.0.attn_v.bias"].data)
    assert torch.equal(values, model.model.layers[0].self_attn.v_proj.bias.float())


def test_the_head_says_what_an_engine_computes_with(saved):
    model = tiny_model(rope_parameters={"rope_type": "default", "rope_theta": 5e5}).bfloat16()
    reader, _ = read(weights_file(saved(model), model.config))
    head = {
        "block_count": 2,
        "context_length": WINDOW,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 16,
        "rope.dimension_count": 16,
        "rope.freq_base": 5e5,
        "vocab_size": VOCABULARY,
    }
    assert {name: field(reader, f"qwen2.{name}") for name in head} == head
    assert field(reader, "tokenizer.ggml.model") == "none"
    assert field(reader, "qwen2.attention.layer_norm_rms_epsilon") == pytest.approx(1e-6)
    assert field(reader, "general.file_type") == gguf.LlamaFileType.MOSTLY_BF16


def test_a_head_size_of_its_own_is_kept(saved):
    model = tiny_llama(head_dim=32)
    reader, _ = read(weights_file(saved(model), model.config))
    assert field(reader, "llama.attention.key_length") == 32
    assert torch.equal(
        read_weights(reader, model.config)["model.layers.0.self_attn.k_proj.weight"],
        model.model.layers[0].self_attn.k_proj.weight,
    )


def test_several_files_of_weights_become_one(saved, tmp_path):
    model = tiny_model().bfloat16()
    model.save_pretrained(tmp_path / "shards", max_shard_size="60KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    _, tensors = read(weights_file(tmp_path / "shards", model.config))
    assert len(tensors) == len(list(model.parameters()))


def test_the_file_is_written_once_and_again_when_the_weights_change(saved):
    model = tiny_model().bfloat16()
    folder = saved(model)
    first = weights_file(folder, model.config)
    time = first.stat().st_mtime_ns
    quantised = quantised_file(first, lambda source, target: target.write_bytes(b"4 bits"))
    assert weights_file(folder, model.config) == first
    assert first.stat().st_mtime_ns == time
    assert quantised.read_bytes() == b"4 bits"
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] += 1
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    second = weights_file(folder, model.config)
    _, tensors = read(second)
    assert tensors["output_norm.weight"].data.min() == 2
    assert not first.exists()
    assert not quantised.exists()


def test_two_folders_of_one_name_keep_their_files(saved):
    model, other = tiny_model().bfloat16(), tiny_model(seed=1).bfloat16()
    first = weights_file(saved(model, "a/mine"), model.config)
    second = weights_file(saved(other, "b/mine"), other.config)
    assert first != second
    assert first.exists()


def test_what_could_not_be_finished_is_not_there(saved, monkeypatch):
    model = tiny_model().bfloat16()
    folder = saved(model)

    def full(self, _):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensor_data", full)
    with pytest.raises(EngineError, match=r"cannot write .* \(No space left on device\); make"):
        weights_file(folder, model.config)
    left = [path.name for path in (home() / "engines").rglob("*") if path.is_file()]
    assert left == []


def test_an_interrupted_quantiser_leaves_nothing(tmp_path):
    def quantise(source, target):
        target.touch()
        raise EngineError("it ended")

    with pytest.raises(EngineError, match="it ended"):
        quantised_file(tmp_path / "weights/0.gguf", quantise)
    assert list((tmp_path / "weights").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "gpt2"}, "no GGUF of a gpt2 model is written here, only qwen2 and llama"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope_parameters {'rope_type'"),
        ({"use_sliding_window": True}, "use_sliding_window True"),
    ],
)
def test_what_a_file_could_not_say_is_refused_in_one_line(model, changes, said):
    config = type("Config", (), {**model.config.to_dict(), **changes})()
    with pytest.raises(EngineError) as caught:
        check_config(config)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_weight_that_has_no_place_or_no_float_is_named(saved, tmp_path):
    model = tiny_model().bfloat16()
    folder = saved(model)
    weights = load_file(folder / "model.safetensors")
    more = {**weights, "model.layers.0.self_attn.sinks": torch.zeros(4)}
    save_file(more, folder / "model.safetensors")
    with pytest.raises(EngineError, match="sinks, for which a GGUF has no place"):
        write(folder, model.config, tmp_path / "a.gguf")
    whole = {**weights, "model.layers.0.input_layernorm.weight": torch.zeros(64, dtype=torch.int8)}
    save_file(whole, folder / "model.safetensors")
    with pytest.raises(EngineError, match=r"input_layernorm.weight is in torch.int8"):
        write(folder, model.config, tmp_path / "b.gguf")


def test_a_folder_without_weights_is_named(tmp_path, model):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InsideGenerateError, match=r"has no model.safetensors"):
        weights_file(tmp_path, model.config)
