"""The calculators give the package's numbers, to the byte, or say in one line why there is none."""

import json
import random
import re
from contextlib import closing
from functools import cache

import pytest
import torch
from tests.book.conftest import ROOT
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.cache_utils import get_layer_types_and_kwargs

import calculators
from inside_generate import kv_cache_bytes, logits_bytes, measured_kv_bytes, weight_bytes
from inside_generate.account import prefill_account
from inside_generate.beyond.capacity import Machine, rows_in_memory
from inside_generate.cache import head_dim, kv_heads, kv_reads, parameter_count, with_kv_heads
from inside_generate.flops import decode_flops, layer_matrix_numbers, prefill_flops
from inside_generate.step_bytes import prefill_bytes, shapes_only, step_bytes

PAGE = "book/calculators.html"
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "8-bit": torch.int8,
}
MODELS = calculators.models(ROOT)
REFERENCE = MODELS[calculators.REFERENCE]
GIB = 1024**3
# All counts of one config for one case, in JavaScript; BigInt as text.
COUNTS = """([text, format, L, T, B, memory, spare]) => {
  const {arithmetic: sums, config} = insideGenerate;
  const {sizes} = config.readConfig(text);
  const each = sums.FORMATS[format];
  const extra = sums.prefillExtra(sizes, L, each, 1);
  const all = sums.prefillExtra(sizes, L, each, L);
  const weights = sums.weightBytes(sizes, each);
  const row = sums.kvCacheBytes(sizes, L, 1, each);
  return Object.entries({
    kv: sums.kvCacheBytes(sizes, L, B, each),
    mha: sums.kvCacheBytes(sums.asMha(sizes), L, B, each),
    logits: sums.logitsBytes(sizes, L, B, each),
    matrices: sums.layerMatrixNumbers(sizes),
    parameters: sums.parameterCount(sizes),
    weights,
    peak: extra.logits + extra.activations,
    peakAll: all.logits + all.activations,
    prefillFlops: sums.prefillFlops(sizes, L),
    prefillBytes: sums.prefillBytes(sizes, L, B, each),
    reads: sums.kvReads(L, T),
    decodeFlops: sums.decodeFlops(sizes, L, T, B),
    decodeBytes: sums.decodeBytes(sizes, L, T, B, each),
    rows: sums.rowsInMemory(memory, spare, weights, row),
  }).map(([name, value]) => [name, String(value)]);
}"""

COUNTS_OF_THE_CACHE = """(text) => {
  const {sizes} = insideGenerate.config.readConfig(text);
  return [["bytes", String(insideGenerate.arithmetic.kvCacheBytes(sizes, 5, 1, 4))]];
}"""


@pytest.fixture(scope="module")
def opened(open_quietly):
    with open_quietly(PAGE, 1280) as page:
        yield page


@pytest.fixture
def page(opened):
    """The page as it is when it is opened."""
    opened.reload()
    return opened


def random_config(draw: random.Random) -> dict:
    """A config of one of the families whose weights the page knows."""
    kind = draw.choice(["llama", "mistral", "qwen2", "qwen3"])
    heads = draw.choice([1, 2, 3, 4, 6, 8, 12])
    config = {
        "model_type": kind,
        "num_hidden_layers": draw.randint(1, 3),
        "num_attention_heads": heads,
        "num_key_value_heads": draw.choice([n for n in range(1, heads + 1) if heads % n == 0]),
        "hidden_size": heads * 2 * draw.randint(1, 40),
        "intermediate_size": draw.randint(1, 900),
        "vocab_size": draw.randint(10, 5000),
        "tie_word_embeddings": draw.random() < 0.5,
        "sliding_window": None,
    }
    if kind == "llama" and draw.random() < 0.3:
        del config["num_key_value_heads"]  # one for each query head
    if kind == "qwen3" or (kind != "qwen2" and draw.random() < 0.5):
        config["head_dim"] = 2 * draw.randint(1, 64)
    if kind in ("llama", "qwen3") and draw.random() < 0.4:
        config["attention_bias"] = True
    if kind == "llama" and draw.random() < 0.3:
        config["mlp_bias"] = True
    return config


def cases() -> list[tuple[dict, str, int, int, int, int, float]]:
    """Config, number format, L, T, B, bytes of memory and the share of it that is kept free."""
    draw = random.Random(20261130)
    configs = [*MODELS.values(), *(random_config(draw) for _ in range(240))]
    return [
        (
            config,
            list(DTYPES)[number % 4],
            draw.randint(1, 5000),
            draw.randint(1, 40),
            draw.randint(1, 64),
            draw.randint(1, 64 * GIB),
            draw.randint(0, 90) / 100,
        )
        for number, config in enumerate(configs)
    ]


CASES = cases()


@cache
def known(text: str):
    """The library's config of a text."""
    fields = json.loads(text)
    return AutoConfig.for_model(fields.pop("model_type"), **fields)


def by_the_package(case) -> dict[str, str]:
    """The same counts from the package's own functions."""
    fields, name, L, T, B, memory, spare = case
    config, dtype = known(json.dumps(fields)), DTYPES[name]
    contexts = range(L + 1, L + T)
    account = prefill_account(config, L, dtype)
    every = prefill_account(config, L, dtype, logits_rows=L)
    # No model can be built of whole numbers: of 8 bits it holds half the bytes of 16.
    half, stored = (2, torch.bfloat16) if name == "8-bit" else (1, dtype)
    shapes = shapes_only(config, stored)
    counts = {
        "kv": kv_cache_bytes(config, L, B, dtype),
        "mha": kv_cache_bytes(with_kv_heads(config, config.num_attention_heads), L, B, dtype),
        "logits": logits_bytes(config, L, B, dtype),
        "matrices": layer_matrix_numbers(config),
        "parameters": parameter_count(shapes),
        "weights": account["weights"],
        "peak": account["logits"] + account["activations"],
        "peakAll": every["logits"] + every["activations"],
        "prefillFlops": prefill_flops(config, L, causal=True),
        "prefillBytes": prefill_bytes(shapes, L, B) // half,
        "reads": kv_reads(L, T),
        "decodeFlops": B * sum(decode_flops(config, context) for context in contexts),
        "decodeBytes": sum_of_steps(shapes, contexts, B) // half,
        "rows": rows_in_memory(config, L, Machine(memory, 1, 1, spare), dtype),
    }
    return {name: str(value) for name, value in counts.items()}


def sum_of_steps(shapes, contexts: range, batch: int) -> int:
    """Bytes that steps over these contexts read; the weights' part is the same in each."""
    if not contexts:
        return 0
    first = step_bytes(shapes, contexts[0], batch)
    more = (kv_cache_bytes(shapes.config, n - contexts[0], batch, shapes.dtype) for n in contexts)
    return len(contexts) * first + sum(more)


def test_the_table_holds_every_kind_of_config():
    configs = [known(json.dumps(case[0])) for case in CASES]
    shares = {(kv_heads(one) == 1, kv_heads(one) == one.num_attention_heads) for one in configs}
    assert len(configs) >= 200
    assert shares == {(False, False), (False, True), (True, False), (True, True)}
    assert {one.tie_word_embeddings for one in configs} == {True, False}
    assert any(head_dim(one) * one.num_attention_heads != one.hidden_size for one in configs)


def test_every_count_equals_the_packages_on_all_configs(page):
    for case in CASES:
        counted = dict(page.evaluate(COUNTS, [json.dumps(case[0]), *case[1:]]))
        assert counted == by_the_package(case), case


def test_times_are_the_larger_of_reading_and_arithmetic(page):
    run = {"promptTokens": 1000, "newTokens": 11, "batch": 2, "bytesEach": 2}
    floors = """([text, run, gbPerS, gflopPerS]) => insideGenerate.arithmetic.runFloors(
      insideGenerate.config.readConfig(text).sizes, run, {gbPerS, gflopPerS})"""
    config = known(json.dumps(REFERENCE))
    found = page.evaluate(floors, [json.dumps(REFERENCE), run, 100, 1000])
    assert found["ttft"]["bound"] == "arithmetic"
    assert found["ttft"]["seconds"] == 2 * prefill_flops(config, 1000, causal=True) / 1e12
    steps = sum_of_steps(shapes_only(config), range(1001, 1011), 2)
    assert found["tpot"]["bound"] == "reading"
    assert found["tpot"]["seconds"] == pytest.approx(steps / 10 / 1e11)
    assert found["totalS"] == pytest.approx(found["ttft"]["seconds"] + steps / 1e11)
    assert found["tokensPerS"] == pytest.approx(2 / found["tpot"]["seconds"])
    one = page.evaluate(floors, [json.dumps(REFERENCE), {**run, "newTokens": 1}, 100, 1000])
    assert one["tpot"] is None


def test_of_every_family_that_the_page_knows_the_real_cache_has_the_bytes_it_says(page):
    families = page.evaluate("insideGenerate.config.DENSE")
    assert len(families) >= 8
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6}
    more = {"vocab_size": 32, "intermediate_size": 32, "num_key_value_heads": 3, "head_dim": 8}
    ends = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    for family in families:
        fields = {"model_type": family, **sizes, **more, "sliding_window": None}
        if family in ("gpt2", "gpt_neox"):
            fields = {"model_type": family, **sizes, "vocab_size": 32}
        if family == "phi":
            del fields["head_dim"], fields["sliding_window"]
        config = known(json.dumps({**fields, **ends}))
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.inference_mode():
            cached = model(torch.ones(1, 5, dtype=torch.long), use_cache=True).cache
        said = dict(page.evaluate(COUNTS_OF_THE_CACHE, json.dumps(fields)))
        assert said == {"bytes": str(measured_kv_bytes(cached))}, family


def test_what_the_library_fills_in_has_to_stand_in_the_config(page):
    """Without these names the library would not take one KV head for each query head, and so on."""
    filled = page.evaluate("insideGenerate.config.FILLED_IN")
    for family in page.evaluate("insideGenerate.config.DENSE"):
        config = AutoConfig.for_model(family, hidden_size=60, num_attention_heads=6)
        own = {
            "num_key_value_heads": kv_heads(config) != 6,
            "head_dim": head_dim(config) != 10,
            "sliding_window": bool(getattr(config, "sliding_window", None)),
        }
        assert [name for name, differs in own.items() if differs] == filled.get(family, []), family


SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
# Settings of another cache that stand in a config and are not at work.
IDLE = {
    "a window that nothing turns on": {"model_type": "qwen2", "sliding_window": 2},
    "a window that is turned off": {
        "model_type": "qwen2",
        "sliding_window": 2,
        "use_sliding_window": False,
    },
    "sharing that is turned off": {
        "model_type": "hunyuan_v1_dense",
        "head_dim": 16,
        "use_cla": False,
        "cla_share_factor": 2,
    },
    "Granite's attention in all layers": {
        "model_type": "granitemoehybrid",
        "layer_types": ["attention", "attention"],
        "mamba_d_state": 16,
        "mamba_n_heads": 4,
        "num_local_experts": 0,
    },
    "MiniMax's attention in all layers": {
        "model_type": "minimax_m2",
        "head_dim": 16,
        "attn_type_list": [1, 1],
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
    },
    "its list by another name": {
        "model_type": "granitemoehybrid",
        "layers_block_type": ["attention", "attention"],
        "mamba_n_heads": 4,
        "num_local_experts": 0,
    },
}


@pytest.mark.parametrize("name", list(IDLE))
def test_what_stands_in_a_config_and_is_not_at_work_changes_nothing(page, name):
    """The page, the package and the library's own cache give one number."""
    more = {"num_key_value_heads": 2, "vocab_size": 32, "intermediate_size": 32}
    fields = {**SIZES, **more, **IDLE[name]}
    ends = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    config = known(json.dumps({**fields, **ends}))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.inference_mode():
        cached = model(torch.ones(1, 5, dtype=torch.long), use_cache=True).cache
    said = dict(page.evaluate(COUNTS_OF_THE_CACHE, json.dumps(fields)))
    measured = measured_kv_bytes(cached)
    assert said == {"bytes": str(measured)}
    assert kv_cache_bytes(config, 5, dtype=torch.float32) == measured


def test_families_whose_window_is_off_by_itself_are_the_librarys(page):
    families = page.evaluate("insideGenerate.config.WINDOW_OFF")
    assert len(families) >= 5
    for family in families:
        config = AutoConfig.for_model(family, sliding_window=2, num_hidden_layers=3)
        assert config.use_sliding_window is False
        kinds, _ = get_layer_types_and_kwargs(config)
        assert kinds == ["full_attention"] * 3, family


def test_families_without_a_cache_have_none_in_the_library(page):
    families = page.evaluate("insideGenerate.config.NO_CACHE")
    assert len(families) >= 8
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1}
    small = {"intermediate_size": 16, "embedding_size": 16, "vocab_size": 32, "sep_token_id": 2}
    for family in families:
        config = AutoConfig.for_model(family, **sizes, **tokens, **small)
        model = AutoModel.from_config(config, attn_implementation="eager").eval()
        with torch.inference_mode():
            output = model(torch.ones(1, 5, dtype=torch.long))
        assert not {name for name in output if "cache" in name or "key_values" in name}, family


REFUSED = {
    "nothing": ("", "Nothing to read: paste the content"),
    "an empty object": ("{}", "The config has no num_hidden_layers"),
    "no JSON": ("{'a': 1}", "This is no JSON"),
    "a list": ("[1, 2]", "an object in braces, not [1,2]"),
    "null": ("null", "an object in braces, not null"),
    "a text": ('"config"', "an object in braces"),
    "too much": (" " * 1_000_001 + "{}", "too long for a config.json"),
    "no layers": ({**SIZES, "num_hidden_layers": 0}, "from 1 to 10,000,000, not 0"),
    "fewer than none": ({**SIZES, "num_attention_heads": -4}, "not -4"),
    "a half": ({**SIZES, "hidden_size": 64.5}, "whole number from 1 to 10,000,000, not 64.5"),
    "a word": ({**SIZES, "num_hidden_layers": "two"}, 'not "two"'),
    "a huge one": ({**SIZES, "num_hidden_layers": 10**30}, "not 1e+30"),
    "uneven heads": ({**SIZES, "num_key_value_heads": 3}, "4 query heads cannot be shared out"),
    "more KV heads": ({**SIZES, "num_key_value_heads": 8}, "4 query heads cannot be shared out"),
    "uneven width": ({**SIZES, "hidden_size": 63}, "63 cannot be cut into 4 heads"),
    "a window": ({**SIZES, "sliding_window": 4096}, "keeps only a window of 4096 positions"),
    "a window in use": (
        {**SIZES, "sliding_window": 4096, "use_sliding_window": True},
        "keeps only a window",
    ),
    "a window in use in a family that has it off": (
        {
            **SIZES,
            "model_type": "qwen3",
            "head_dim": 8,
            "num_key_value_heads": 2,
            "sliding_window": 2,
            "use_sliding_window": True,
        },
        "keeps only a window of 2 positions",
    ),
    "a window that its family cannot turn off": (
        {
            **SIZES,
            "model_type": "mistral",
            "num_key_value_heads": 2,
            "sliding_window": 2,
            "use_sliding_window": False,
        },
        "keeps only a window of 2 positions",
    ),
    "sharing in use": ({**SIZES, "use_cla": True, "cla_share_factor": 2}, "between layers"),
    "sharing left open": ({**SIZES, "cla_share_factor": 2}, "between layers"),
    "a state beside attention": ({**SIZES, "mamba_d_state": 16}, "mixes attention with layers"),
    "Granite's mix": (
        {**SIZES, "layer_types": ["attention", "mamba"], "mamba_d_state": 16},
        'layers of the kind "mamba"',
    ),
    "a list that is too short": (
        {**SIZES, "layer_types": ["attention"]},
        "layer_types must name each of the 2 layers, not 1",
    ),
    "some windows": (
        {**SIZES, "layer_types": ["full_attention", "sliding_attention"]},
        'layers of the kind "sliding_attention"',
    ),
    "linear layers": (
        {**SIZES, "layer_types": ["linear_attention", "full_attention"]},
        'layers of the kind "linear_attention"',
    ),
    "a hybrid": ({**SIZES, "hybrid_override_pattern": "M-M*"}, "mixes attention with layers"),
    "MLA": ({**SIZES, "kv_lora_rank": 512}, "compressed keys and values (MLA)"),
    "MLA inside": ({"text_config": {**SIZES, "kv_lora_rank": 512}}, "(MLA)"),
    "sizes that are another part's": (
        {**SIZES, "text_config": {"num_hidden_layers": 2, "num_attention_heads": 4}},
        "The config has no hidden_size",
    ),
    "a head size by another name": (
        {**SIZES, "kv_channels": 128},
        "kv_channels is 128, and the size of a head would be 16: no number",
    ),
    "values of another size": ({**SIZES, "head_dim": 24, "v_head_dim": 16}, "v_head_dim is 16"),
    "two lists that disagree": (
        {**SIZES, "layer_types": ["attention"] * 2, "layers_block_type": ["attention", "mamba"]},
        'layers of the kind "mamba"',
    ),
    "an endless number as Python writes it": ('{"num_hidden_layers": -Infinity}', "beyond all"),
    "other names": ({**SIZES, "multi_query": True}, "names its KV heads otherwise"),
    "MiniMax's mix": ({**SIZES, "attn_type_list": [0, 1]}, "mixes attention with layers"),
    "shared layers": ({**SIZES, "num_kv_shared_layers": 2}, "between layers"),
    "an encoder": ({**SIZES, "is_encoder_decoder": True}, "has an encoder"),
    "left out": ({**SIZES, "model_type": "qwen2"}, "has to say num_key_value_heads"),
    "Mistral's window": (
        {**SIZES, "model_type": "mistral", "num_key_value_heads": 2},
        "has to say sliding_window",
    ),
    "groups": ({**SIZES, "num_attention_groups": 1}, "names its KV heads otherwise"),
    "Falcon's first name": ({**SIZES, "n_head_kv": 2}, "names its KV heads otherwise"),
    "groups of queries": ({**SIZES, "n_query_groups": 2}, "names its KV heads otherwise"),
    "a small model's name": ({**SIZES, "n_kv_head": 2}, "names its KV heads otherwise"),
    "windows by another name": ({**SIZES, "local_attention": 128}, "only a part of the text"),
    "no cache": ({**SIZES, "model_type": "bert"}, "no keys and values from token to token"),
    "other heads in each layer": ({**SIZES, "block_configs": [{}]}, "from layer to layer"),
    "pictures": ({**SIZES, "cross_attention_layers": [1]}, "mixes attention with layers"),
    "kinds in a text": ({**SIZES, "layer_types": "full_attention"}, "layer_types must be a list"),
    "a switch in a text": (
        {
            **SIZES,
            "model_type": "qwen3",
            "head_dim": 8,
            "num_key_value_heads": 2,
            "vocab_size": 9,
            "intermediate_size": 9,
            "tie_word_embeddings": "false",
        },
        'tie_word_embeddings must be true or false, not "false"',
    ),
    "beyond all numbers": ('{"num_hidden_layers": 1e999}', "not a number beyond all sizes"),
    "markup": ({**SIZES, "num_hidden_layers": "<img src=x>"}, 'not "<img src=x>"'),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_config_that_gives_no_number_is_answered_in_one_line(opened, name):
    page, (text, message) = opened, REFUSED[name]  # a reload for each would take most of the time
    page.fill("#calc-config", json.dumps(SIZES))
    assert page.inner_text("#calc-said").startswith("Read: ")
    page.fill("#calc-config", text if isinstance(text, str) else json.dumps(text))
    said = page.inner_text("#calc-said")
    assert said.startswith("Not read: ")
    assert message in said
    assert "\n" not in said
    assert page.get_attribute("#calc-config", "aria-invalid") == "true"
    results = page.locator("form output").all_inner_texts()
    assert [result.startswith("No result: ") and message in result for result in results] == [
        True
    ] * 3
    assert page.locator("form table:visible, form img").count() == 0


def test_a_language_model_inside_a_larger_one_is_found(page):
    inside = {"text_config": {**SIZES, "num_key_value_heads": 2}, "vision_config": {}}
    page.fill("#calc-config", json.dumps(inside))
    assert "2 layers, 4 query heads, 2 KV heads, head size 16" in page.inner_text("#calc-said")
    assert "language part of a larger model" in page.inner_text("#calc-said")


def test_a_language_model_inside_takes_no_kv_heads_from_outside(page):
    page.fill("#calc-config", json.dumps({"num_key_value_heads": 1, "text_config": SIZES}))
    assert "4 query heads, 4 KV heads" in page.inner_text("#calc-said")


@pytest.mark.parametrize("kind", [None, ["llama"], {"toString": 1}])
def test_a_model_type_that_is_no_text_is_a_model_without_a_name(page, kind):
    page.fill("#calc-config", json.dumps({**SIZES, "model_type": kind}))
    assert 'does not know ("without a name")' in page.inner_text("#calc-said")
    memory = page.inner_text('[data-calculator="serving"] output')
    assert 'The weights of model type "without a name" are not known' in memory


@pytest.mark.parametrize("heads", [{}, {"num_key_value_heads": 2}])
def test_of_a_type_that_is_not_known_it_is_said_what_was_taken_for_granted(page, heads):
    page.fill("#calc-config", json.dumps({**SIZES, **heads, "model_type": "smollm3"}))
    said = page.inner_text("#calc-said")
    assert 'does not know ("smollm3")' in said
    assert ("each query head has a KV head of its own" in said) == (not heads)


def test_an_endless_number_beside_the_sizes_is_no_hindrance(page):
    limits = {"time_step_limit": [0.0, float("inf")], "say": 'a "NaN" and Infinity', "x": None}
    page.fill("#calc-config", json.dumps({**SIZES, **limits}))
    assert page.inner_text("#calc-said").startswith("Read: 2 layers")


def test_a_number_format_that_is_not_offered_is_named(page):
    page.fill("#calc-config", "\ufeff" + json.dumps({**SIZES, "dtype": "float8_e4m3fn"}))
    said = page.inner_text("#calc-said")
    assert said.startswith("Read: 2 layers")
    assert 'The number format "float8_e4m3fn" is not offered here: choose one' in said
    page.fill("#calc-config", json.dumps({**SIZES, "torch_dtype": "float16"}))
    assert "not offered" not in page.inner_text("#calc-said")
    assert page.input_value("#calc-format") == "float16"


def test_an_unknown_model_type_gets_its_cache_with_a_warning_and_no_memory(page):
    page.fill("#calc-config", json.dumps({**SIZES, "model_type": "something"}))
    assert 'does not know ("something")' in page.inner_text("#calc-said")
    cache, memory, times = page.locator("form output").all_inner_texts()
    assert re.search(r"= [\d,]+ bytes", cache)
    for said in (memory, times):
        assert 'The weights of model type "something" are not known' in said


@pytest.mark.parametrize("name", list(MODELS))
def test_the_page_shows_the_packages_numbers_for_every_model_of_the_course(page, name):
    config = known(json.dumps(MODELS[name]))
    page.select_option("#calc-model", name)
    page.fill("#calc-length", "32,768")
    page.fill("#calc-batch", "3")
    page.select_option("#calc-format", "float32")
    expected = kv_cache_bytes(config, 32_768, 3, torch.float32)
    assert f"= {expected:,} bytes =\u00a0" in page.inner_text('[data-calculator="cache"] output')
    memory = page.inner_text('[data-calculator="serving"] table')
    assert f"Weights, {parameter_count(config):,} numbers" in memory
    assert f"{weight_bytes(config):,} bytes" in memory
    machine = Machine(24 * GIB, 1, 1, 0.1)
    fit = rows_in_memory(config, 4096, machine)
    assert f"{fit:,} users of this context fit" in page.inner_text(
        '[data-calculator="serving"] output'
    )


def test_the_pages_sentence_says_the_formula_with_its_numbers(page):
    page.fill("#calc-length", "1024")
    said = page.inner_text('[data-calculator="cache"] output')
    assert said == "2 · 24 · 2 · 64 · 1 · 1,024 · 2 = 12,582,912 bytes =\u00a012\u00a0MiB."


def test_one_user_is_told_of_as_one(page):
    page.fill("#calc-context", "100000")
    page.fill("#calc-memory", "3")
    said = page.inner_text('[data-calculator="serving"] output')
    assert "1 user of this context fits." in said


def test_times_use_the_recorded_machine_and_say_where_its_numbers_come_from(page):
    machine = calculators.data(ROOT)["machines"][0]
    assert page.input_value("#calc-gb") == str(machine["gb_per_s"])
    assert page.input_value("#calc-gflop") == str(machine["gflop_per_s"])
    assert machine["provenance"] in page.inner_text("#calc-provenance")
    page.fill("#calc-gb", "100")
    assert page.inner_text("#calc-provenance").startswith("Your own numbers")
    assert page.inner_text('[data-calculator="run"] output').startswith("Computed, not measured")
    page.fill("#calc-new", "1")
    assert "no TPOT" in page.inner_text('[data-calculator="run"] output')


BAD = [
    "",
    "0",
    "-1",
    "many",
    "1.5",
    "1e3",
    "1,00",
    "0,500",
    "٣",
    "+5",
    "99999999999999999999",
    "∞",
    "<b>1</b>",
]


@pytest.mark.parametrize("typed", BAD)
@pytest.mark.parametrize("field", ["calc-length", "calc-users", "calc-prompt"])
def test_a_number_that_is_none_is_answered_in_one_line_with_its_value(opened, field, typed):
    page = opened
    page.fill("#calc-config", json.dumps(REFERENCE))
    page.fill(f"#{field}", typed)
    form = page.locator(f"form:has(#{field})")
    said = form.locator("output").inner_text()
    label = page.inner_text(f"label[for={field}]")
    shown = json.dumps(typed, ensure_ascii=False)
    wanted = f"No result: {label} must be a whole number from 1 to "
    assert re.fullmatch(rf"{re.escape(wanted)}[\d,]+, not {re.escape(shown)}\.", said)
    assert page.get_attribute(f"#{field}", "aria-invalid") == "true"
    assert not form.locator("table").is_visible()
    page.fill(f"#{field}", "10")
    assert not form.locator("output").inner_text().startswith("No result")
    assert page.get_attribute(f"#{field}", "aria-invalid") is None


def test_every_field_has_a_label_and_every_result_is_announced(page):
    fields = page.locator("form.calculator :is(input, select, textarea)")
    assert fields.count() >= 17
    labelled = fields.evaluate_all("(all) => all.map((field) => field.labels.length)")
    assert set(labelled) == {1}
    live = page.locator("form.calculator output").evaluate_all(
        "(all) => all.map((o) => o.ariaLive)"
    )
    assert live == ["polite"] * 3


def test_the_calculators_work_by_the_keyboard_alone(page):
    page.locator("#calc-model").focus()
    page.keyboard.press("End")  # the last choice: one to be pasted
    assert page.input_value("#calc-config") == ""
    page.keyboard.press("Tab")
    page.keyboard.insert_text(json.dumps({**SIZES, "num_key_value_heads": 1}))
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.id") != "calc-length":
        assert page.evaluate("document.activeElement !== document.body")
        page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("10")
    said = page.inner_text('[data-calculator="cache"] output')
    assert said.startswith("2 · 2 · 1 · 16 · 1 · 10 · ")


def test_without_javascript_the_page_has_formula_and_table_and_no_dead_form(browser, site):
    context = browser.new_context(java_script_enabled=False)
    with closing(context), closing(context.new_page()) as plain:
        plain.goto(f"{site}/{PAGE}")
        text = plain.inner_text("article")
        assert plain.locator("form.calculator:visible").count() == 0
    assert "2 · layers · KV heads · head size · rows · tokens · bytes per number" in text
    assert "86,016" in text
    assert "need JavaScript" in text


def test_other_pages_do_not_load_the_calculators():
    name = "calculators.js"
    assert name in (ROOT / "_build/html" / PAGE).read_text("utf-8")
    assert name not in (ROOT / "_build/html/book/glossary.html").read_text("utf-8")
