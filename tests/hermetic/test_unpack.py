"""A GGUF file becomes the model that it was written from, and nothing else."""

import hashlib
import json

import gguf
import pytest
import torch
from tests.hermetic.small_files import tiny_llama, tiny_qwen2, write_gguf
from tests.tiny import tiny_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from inside_generate.errors import InsideGenerateError
from inside_generate.getting.unpack import unpack
from inside_generate.getting.unpack_tokenizer import QWEN_NOT_SPECIAL, build_qwen2, build_smollm


@pytest.fixture
def unpacked(tmp_path):
    """Return a function: model in, unpacked directory out."""

    def run(model, **options):
        unpack(write_gguf(tmp_path / "model.gguf", model, **options), tmp_path / "out")
        return tmp_path / "out"

    return run


@pytest.mark.parametrize("make", [tiny_qwen2, tiny_llama], ids=["qwen2", "llama"])
def test_unpacked_weights_are_the_models_rounded_to_bf16(unpacked, make):
    model = make()
    state = AutoModelForCausalLM.from_pretrained(unpacked(model)).state_dict()
    assert state.keys() == model.state_dict().keys()
    for name, values in model.state_dict().items():
        assert torch.equal(state[name], values.bfloat16()), name


@pytest.mark.parametrize("make", [tiny_qwen2, tiny_llama], ids=["qwen2", "llama"])
def test_unpacked_model_gives_the_same_logits(unpacked, make):
    model = make()
    for parameter in model.parameters():  # not model.bfloat16(): that rounds the rotation too
        parameter.data = parameter.data.bfloat16().float()
    directory = unpacked(model)
    ours = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ids = torch.arange(12)[None]  # [1, 12]
    with torch.inference_mode():
        torch.testing.assert_close(ours(ids).logits, model(ids).logits, rtol=0, atol=1e-5)


def test_quantised_weights_come_back_within_half_a_step_of_their_scale(unpacked):
    model = tiny_qwen2()
    directory = unpacked(model, quantise=True)
    state = AutoModelForCausalLM.from_pretrained(directory).state_dict()
    name = "model.layers.1.mlp.up_proj.weight"
    values = model.state_dict()[name]
    step = values.reshape(-1, 32).abs().amax(1, keepdim=True) / 127  # Q8_0: one scale for 32
    error = (state[name].float() - values).reshape(-1, 32).abs()
    assert (error <= 0.5 * step + values.reshape(-1, 32).abs() * 2**-8 + 1e-3 * step).all()
    assert error.max() > 0  # it is quantised


def test_config_is_the_models_own(unpacked):
    model = tiny_qwen2(rms_norm_eps=1e-6)
    config = json.loads((unpacked(model) / "config.json").read_text("utf-8"))
    for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"):
        assert config[key] == getattr(model.config, key)
    assert config["num_key_value_heads"] == 2
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 10000.0}
    assert config["rms_norm_eps"] == 1e-6  # not the 9.99999997e-07 of 32 bits
    assert config["architectures"] == ["Qwen2ForCausalLM"]


@pytest.mark.parametrize("tied", [True, False])
def test_tied_embeddings_stay_tied_and_untied_ones_untied(unpacked, tied):
    directory = unpacked(tiny_qwen2(tie_word_embeddings=tied))
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert model.config.tie_word_embeddings is tied
    assert (model.lm_head.weight is model.model.embed_tokens.weight) is tied


def test_generation_config_has_the_special_ids_and_no_settings_of_its_own(unpacked):
    config = json.loads((unpacked(tiny_qwen2()) / "generation_config.json").read_text("utf-8"))
    del config["transformers_version"]
    assert config.pop("_from_model_config", False) is False
    pad, eos = tiny_tokenizer().pad_token_id, tiny_tokenizer().eos_token_id
    assert config == {"bos_token_id": pad, "eos_token_id": eos, "pad_token_id": pad}


def test_unpacking_twice_gives_the_same_bytes(unpacked, tmp_path):
    first = hashlib.sha256((unpacked(tiny_qwen2()) / "model.safetensors").read_bytes())
    second = hashlib.sha256((unpacked(tiny_qwen2()) / "model.safetensors").read_bytes())
    assert first.digest() == second.digest()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"skip": "model.layers.1.mlp.up_proj.weight"}, r"lacks model\.layers\.1\.mlp\.up_proj"),
        ({"extra": True}, r"more than the model: blk\.9\.attn_q\.weight"),
        ({"architecture": "gptneox"}, r"architecture 'gptneox', only qwen2, llama"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(unpacked, options, message):
    with pytest.raises(InsideGenerateError, match=message):
        unpacked(tiny_qwen2(), **options)


def test_filler_tokens_are_dropped_and_texts_keep_their_ids(unpacked):
    tokenizer, ours = AutoTokenizer.from_pretrained(unpacked(tiny_qwen2())), tiny_tokenizer()
    assert len(tokenizer) == len(ours) < 352
    assert not any("[PAD" in token for token in tokenizer.get_vocab())
    assert tokenizer("[PAD340]")["input_ids"] != [340]
    text = "What's for lunch today? <|im_start|>The soup.<|im_end|>"
    assert tokenizer(text)["input_ids"] == ours(text)["input_ids"]
    assert tokenizer.chat_template == ours.chat_template


def test_qwens_tool_and_code_tokens_are_added_but_not_special():
    """The GGUF calls them control tokens; published, they stay in decoded text."""
    names = ["<|endoftext|>", "<|im_end|>", *sorted(QWEN_NOT_SPECIAL)]
    tokenizer = build_qwen2(["a", "b", *names], [1, 1] + [3] * len(names), [])
    assert tokenizer.vocab_size == 2
    assert len(tokenizer) == 2 + len(names)
    ids = tokenizer("<tool_call>a<|im_end|>")["input_ids"]
    assert [tokenizer.convert_ids_to_tokens(i) for i in ids] == ["<tool_call>", "a", "<|im_end|>"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<tool_call>a"


def test_the_small_ones_digits_stand_alone_and_its_control_tokens_are_special():
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "2", "0", "20", "a", "aa", "Ġ"]
    types, merges = [3, 3, 3, 1, 1, 1, 1, 1, 1], [("2", "0"), ("a", "a")]
    tokenizer = build_smollm(tokens, types, merges)
    assert tokenizer.tokenize("20aa 20<|im_end|>") == ["2", "0", "aa", "Ġ", "2", "0", "<|im_end|>"]
    assert (len(tokenizer), tokenizer.vocab_size) == (9, 9)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer("aa")["input_ids"] == [7]  # and no BOS before it
    assert tokenizer.decode([7, 2], skip_special_tokens=True) == "aa"


def test_a_tokenizer_of_another_family_is_refused(unpacked, monkeypatch):
    monkeypatch.setattr(gguf.GGUFWriter, "add_tokenizer_pre", _wrong_family)
    with pytest.raises(InsideGenerateError, match="family 'llama-bpe', only qwen2, smollm"):
        unpacked(tiny_qwen2())


def _wrong_family(writer, pre):
    writer.add_string("tokenizer.ggml.pre", "llama-bpe")
