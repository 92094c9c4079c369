"""Bytes: what the formulas say is what the tensors hold, and the reference's own figures."""

from importlib import resources

import pytest
import torch
from tests.tiny import tiny_config, tiny_model
from transformers import (
    AutoConfig,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteMoeHybridConfig,
    GraniteMoeHybridForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    Qwen2Config,
    Qwen2ForCausalLM,
    StaticCache,
)
from transformers.models.qwen2.modeling_qwen2 import repeat_kv

from inside_generate import kv_cache_bytes, logits_bytes, measured_kv_bytes, prefill, weight_bytes
from inside_generate.cache import (
    head_dim,
    kv_head_of,
    kv_heads,
    kv_reads,
    parameter_count,
    with_kv_heads,
)

MIB = 1024**2


def llama(**changes):
    sizes = {
        "vocab_size": 64,
        "hidden_size": 48,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
    }
    return LlamaForCausalLM(LlamaConfig(**(sizes | changes)))


def granite(kinds):
    sizes = {"vocab_size": 64, "hidden_size": 48, "intermediate_size": 32, "mamba_n_heads": 6}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "num_local_experts": 0}
    more = {"num_hidden_layers": len(kinds), "layer_types": kinds}
    return GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(**sizes, **heads, **more))


MODELS = {
    "grouped": lambda: tiny_model(),
    "one kv head": lambda: tiny_model(num_key_value_heads=1),
    "kv = query heads": lambda: tiny_model(num_key_value_heads=4),
    "explicit head_dim": lambda: llama(head_dim=20),  # not 48 / 6
    "a window that nothing turns on": lambda: tiny_model(sliding_window=4),
    "attention in all layers, by an old name": lambda: granite(["attention", "attention"]),
    "kv heads None": lambda: llama(num_key_value_heads=None),
    "no such key": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=32, n_embd=48, n_layer=2, n_head=3)
    ),
}


def filled(model, cache, batch, length):
    with torch.inference_mode():
        ids = torch.ones(batch, length, dtype=torch.long)
        return model.eval()(input_ids=ids, cache=cache, use_cache=True).cache


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("name", list(MODELS))
def test_the_kv_formula_gives_the_bytes_of_the_real_tensors(name, kind, dtype):
    model = MODELS[name]().to(dtype)
    cache = (
        DynamicCache(config=model.config)
        if kind == "dynamic"
        else StaticCache(config=model.config, max_cache_len=17)
    )
    measured = measured_kv_bytes(filled(model, cache, batch=3, length=17))
    assert measured > 0
    assert kv_cache_bytes(model.config, 17, batch=3, dtype=dtype) == measured


def test_a_static_cache_takes_the_bytes_of_its_full_length_from_the_start():
    model = tiny_model()
    cache = filled(model, StaticCache(config=model.config, max_cache_len=32), batch=1, length=5)
    assert measured_kv_bytes(cache) == kv_cache_bytes(model.config, 32, dtype=torch.float32)


def test_prefill_leaves_the_predicted_bytes_behind():
    model = tiny_model()
    ids = torch.ones(2, 9, dtype=torch.long)
    cache = prefill(model, {"input_ids": ids, "attention_mask": ids}).cache
    assert measured_kv_bytes(cache) == kv_cache_bytes(model.config, 9, 2, torch.float32)


def test_an_explicit_head_size_wins_over_the_quotient():
    assert repr(head_dim(tiny_config())) == "16"  # a whole number: shapes are made from it
    assert head_dim(LlamaConfig(hidden_size=48, num_attention_heads=6, head_dim=20)) == 20


def test_a_config_without_kv_heads_has_one_for_each_query_head():
    config = Qwen2Config(num_attention_heads=8, num_key_value_heads=2)
    assert kv_heads(config) == 2
    config.num_key_value_heads = None
    assert kv_heads(config) == 8
    assert kv_heads(GPT2Config(n_head=3)) == 3


def test_nothing_cached_takes_no_bytes():
    assert kv_cache_bytes(tiny_config(), 0) == 0
    assert measured_kv_bytes(DynamicCache()) == 0


@pytest.mark.parametrize("bad", [-1, 1.5, True, "17", None])
@pytest.mark.parametrize("size", ["length", "batch"])
@pytest.mark.parametrize("formula", [kv_cache_bytes, logits_bytes])
def test_a_size_that_is_no_whole_number_is_refused_by_name(formula, size, bad):
    sizes = {"length": 17, "batch": 3} | {size: bad}
    with pytest.raises(
        ValueError, match=rf"{size} must be a whole number of at least 0, not {bad!r}"
    ):
        formula(tiny_config(), **sizes)


def test_the_logits_formula_gives_the_bytes_of_the_real_tensor():
    model = tiny_model()
    ids = torch.ones(3, 17, dtype=torch.long)
    logits = prefill(model, {"input_ids": ids, "attention_mask": ids}, True).all_logits
    assert logits.nbytes == logits_bytes(model.config, 17, batch=3, dtype=torch.float32)


# --- heads and reads ------------------------------------------------------------------------------


def test_in_the_reference_query_heads_0_to_6_read_kv_head_0_and_7_to_13_read_1(reference):
    assert [kv_head_of(reference, head) for head in range(14)] == [0] * 7 + [1] * 7


@pytest.mark.parametrize("kv", [1, 2, 4])
def test_the_map_of_heads_is_the_one_that_the_library_repeats_by(kv):
    config = tiny_config(num_key_value_heads=kv)
    numbered = torch.arange(kv).view(1, kv, 1, 1)  # each KV head holds its own number
    repeated = repeat_kv(numbered, config.num_attention_heads // kv).flatten()
    found = [kv_head_of(config, head) for head in range(4)]
    assert found == repeated.tolist()
    assert all(isinstance(head, int) for head in found)  # they index a tensor


@pytest.mark.parametrize(
    ("head", "message"),
    [(4, "one of 0 to 3, not 4"), (-1, "at least 0, not -1"), (1.0, "whole number")],
)
def test_a_query_head_that_is_none_is_refused(head, message):
    with pytest.raises(ValueError, match=f"query_head must be .*{message}"):
        kv_head_of(tiny_config(), head)


def test_a_config_with_other_kv_heads_is_a_copy_and_makes_such_a_cache():
    config = tiny_config()
    changed = with_kv_heads(config, 4)
    assert (kv_heads(config), kv_heads(changed)) == (2, 4)
    ids = torch.ones(1, 5, dtype=torch.long)
    model = Qwen2ForCausalLM(changed).eval()
    cache = prefill(model, {"input_ids": ids, "attention_mask": ids}).cache
    assert measured_kv_bytes(cache) == kv_cache_bytes(changed, 5, dtype=torch.float32)
    assert measured_kv_bytes(cache) == 2 * kv_cache_bytes(config, 5, dtype=torch.float32)


@pytest.mark.parametrize("number", [3, 5, 8])
def test_query_heads_that_do_not_come_out_even_are_refused(number):
    with pytest.raises(ValueError, match=f"4 query heads cannot .* to {number} KV heads"):
        with_kv_heads(tiny_config(), number)
    config = tiny_config()
    config.num_key_value_heads = number
    with pytest.raises(ValueError, match=f"4 query heads cannot .* to {number} KV heads"):
        kv_head_of(config, 3)


@pytest.mark.parametrize("number", [0, -1, True, 2.0])
def test_a_number_of_kv_heads_is_a_count(number):
    with pytest.raises(ValueError, match=f"number must be .* at least 1, not {number!r}"):
        with_kv_heads(tiny_config(), number)


@pytest.mark.parametrize("dtype", ["float16", None, float])
@pytest.mark.parametrize("formula", [kv_cache_bytes, logits_bytes])
def test_a_dtype_that_is_not_torchs_is_named(formula, dtype):
    with pytest.raises(ValueError, match=f"dtype must be torch's.*, not {dtype!r}"):
        formula(tiny_config(), 1, dtype=dtype)


@pytest.mark.parametrize(("prompt", "tokens"), [(35, 13), (1, 2), (7, 1), (7, 0)])
def test_reads_are_the_sum_of_what_each_decode_step_sees(prompt, tokens):
    reads = kv_reads(prompt, tokens)
    assert reads == sum(prompt + step for step in range(1, tokens))
    assert isinstance(reads, int)


@pytest.mark.parametrize("counts", [(-1, 3), (3, -1), (2.5, 3), (3, 2.5)])
def test_reads_are_counted_for_whole_numbers_of_tokens_only(counts):
    with pytest.raises(ValueError, match=r"tokens must be a whole number of at least 0"):
        kv_reads(*counts)


def test_changing_a_copy_with_other_kv_heads_leaves_the_config_alone():
    """Also what lies deeper: the settings of the positions are a dictionary in it."""
    config = tiny_config()
    before = config.to_dict()
    with_kv_heads(config, 4).rope_parameters["rope_theta"] = 5.0
    assert config.to_dict() == before


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_weights_are_counted_alike_from_config_and_model_and_a_tied_matrix_once(tied):
    model = tiny_model(tie_word_embeddings=tied)
    storages = {p.untyped_storage().data_ptr(): p.nbytes for p in model.parameters()}
    assert weight_bytes(model, torch.float32) == sum(storages.values())
    assert weight_bytes(model.config, torch.float32) == weight_bytes(model, torch.float32)


def test_tying_saves_one_matrix():
    tied, untied = (parameter_count(tiny_config(tie_word_embeddings=tie)) for tie in (True, False))
    config = tiny_config()
    assert untied - tied == config.vocab_size * config.hidden_size


def test_weights_are_counted_in_the_dtype_that_is_asked_for():
    assert weight_bytes(tiny_config()) * 2 == weight_bytes(tiny_config(), torch.float32)


# --- the reference's figures, from its config alone -----------------------------------------------


@pytest.fixture(scope="module")
def reference():
    folder = resources.files("inside_generate").joinpath("data", "qwen2.5-0.5b-instruct")
    return AutoConfig.from_pretrained(str(folder), local_files_only=True)


def test_the_reference_keeps_12288_bytes_a_token_and_86016_as_mha(reference):
    assert kv_cache_bytes(reference, 1) == 12_288
    assert kv_cache_bytes(with_kv_heads(reference, 14), 1) == 86_016 == 7 * 12_288
    assert kv_cache_bytes(with_kv_heads(reference, 1), 1) == 6 * 1024
    assert kv_cache_bytes(reference, 1, dtype=torch.float32) == 2 * 12_288


@pytest.mark.parametrize(("tokens", "mib"), [(1024, 12), (8 * 1024, 96), (32 * 1024, 384)])
def test_the_references_cache_of_a_long_context_in_mib(reference, tokens, mib):
    assert kv_cache_bytes(reference, tokens) == mib * MIB


def test_the_references_logits_of_4096_positions_are_25_times_its_cache(reference):
    logits, cache = logits_bytes(reference, 4096), kv_cache_bytes(reference, 4096)
    assert logits == 1_244_659_712
    assert round(logits / cache) == 25


def test_the_references_logits_of_1024_positions_are_296_75_mib_of_which_one_row_serves(reference):
    assert logits_bytes(reference, 1024) / MIB == 296.75
    assert logits_bytes(reference, 1) / MIB == pytest.approx(0.29, abs=0.005)


def test_the_reference_has_494032768_numbers_136134656_of_them_in_the_embedding(reference):
    assert parameter_count(reference) == 494_032_768
    assert weight_bytes(reference) == 988_065_536
    assert reference.vocab_size * reference.hidden_size == 136_134_656


def test_the_stand_ins_untied_matrix_makes_630_million_numbers(reference):
    untied = Qwen2Config.from_dict({**reference.to_dict(), "tie_word_embeddings": False})
    assert parameter_count(untied) == 494_032_768 + 136_134_656


def test_counting_from_a_config_takes_no_memory(reference, monkeypatch):
    """Half a billion fp32 numbers would be 2 GB: they stay on the device that stores nothing."""
    made = []
    real = Qwen2ForCausalLM.__init__

    def watched(self, config):
        real(self, config)
        made.append(self)

    monkeypatch.setattr(Qwen2ForCausalLM, "__init__", watched)
    parameter_count(reference)
    assert {parameter.device.type for parameter in made[0].parameters()} == {"meta"}


@pytest.mark.parametrize("wrong", [None, {}, 3, MambaConfig()], ids=lambda one: type(one).__name__)
def test_what_is_no_config_of_a_model_with_attention_is_named_with_what_is_wanted(wrong):
    kind = type(wrong).__name__
    with pytest.raises(ValueError, match=rf"{kind} has no .*dense attention.*model\.config"):
        kv_cache_bytes(wrong, 3)


@pytest.mark.parametrize("wrong", [None, {}, 3, "x"])
def test_what_is_neither_model_nor_config_has_no_logits_and_no_weights(wrong):
    kind = type(wrong).__name__
    with pytest.raises(ValueError, match=rf"{kind} has no vocab_size: the config of"):
        logits_bytes(wrong, 3)
    with pytest.raises(ValueError, match=rf"{kind} has no parameters: the config of"):
        weight_bytes(wrong)


def test_a_config_without_a_hidden_size_gives_no_head_size_and_is_named():
    class Half:
        num_hidden_layers = num_attention_heads = 2

    with pytest.raises(ValueError, match="Half has no hidden_size: the config of"):
        kv_cache_bytes(Half(), 3)


def test_a_model_in_the_place_of_its_config_is_named(model):
    with pytest.raises(ValueError, match="Qwen2ForCausalLM has no num_hidden_layers"):
        kv_cache_bytes(model, 3)


def test_a_cache_that_has_met_no_token_holds_no_bytes(model):
    new = DynamicCache(config=model.config), StaticCache(config=model.config, max_cache_len=9)
    assert [measured_kv_bytes(cache) for cache in (*new, DynamicCache())] == [0, 0, 0]
