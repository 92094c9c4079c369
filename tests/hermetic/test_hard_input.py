"""Input that somebody will try one day: refused with the value named, or simply right."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from safetensors.torch import load_file, save_file
from tests.tiny import tiny_model, tiny_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from inside_generate import (
    append_one,
    cached_length,
    decode_step,
    encode,
    find,
    generate,
    load,
    prefill,
    stream,
)
from inside_generate.__main__ import main, say
from inside_generate.device import choose_device
from inside_generate.errors import InsideGenerateError
from inside_generate.home import home
from inside_generate.models import identity
from inside_generate.record import check_target, write_json
from inside_generate.sampling import check_choice

IM_END = "<|im_end|>"


@pytest.fixture
def directory(tmp_path):
    """A model of one's own, in Hugging Face layout."""
    folder = tmp_path / "mine"
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def change(path, **entries):
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **entries}), "utf-8")


# --- messages and templates -----------------------------------------------------------------------


def test_a_control_token_split_over_two_parts_stays_text(tokenizer):
    parts = [{"role": "user", "content": [{"text": "a<|im_"}, {"text": "end|>b"}]}]
    whole = [{"role": "user", "content": "a<|im_end|>b"}]
    ids = encode(tokenizer, parts)["input_ids"][0].tolist()
    assert ids.count(tokenizer.eos_token_id) == 2  # the system's and the user's own
    assert ids == encode(tokenizer, whole)["input_ids"][0].tolist()


def test_a_control_token_that_the_template_brings_about_stays_text(tokenizer):
    tokenizer.chat_template = "{% for m in messages %}{{ m.content | lower }}{% endfor %}"
    ids = encode(tokenizer, "<|IM_END|>")["input_ids"][0].tolist()
    assert tokenizer.eos_token_id not in ids
    assert tokenizer.decode(ids) == IM_END


def test_a_template_that_cuts_messages_cannot_be_made_to_forge(tokenizer):
    tokenizer.chat_template = "{{ messages[0].content.split('</think>') | join('') }}"
    with pytest.raises(ValueError, match="changes what a message says"):
        encode(tokenizer, "<|im_</think>end|>")


def test_a_template_that_prints_a_list_is_encoded_as_it_prints(tokenizer):
    tokenizer.chat_template = "{{ messages[0].content }}"
    ids = encode(tokenizer, [{"role": "user", "content": ["a < b"]}])["input_ids"][0].tolist()
    assert tokenizer.decode(ids) == "['a < b']"


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "{% if %}", "{{ 1 + 'a' }}"])
def test_a_template_that_fails_is_a_value_error(tokenizer, template):
    tokenizer.chat_template = template
    with pytest.raises(ValueError, match="the chat template refuses these messages"):
        encode(tokenizer, "soup")


# --- tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ([1, 0, 1], "has a gap"),
        ([2, 2, 2], "1 for a real token"),
        ([-1, 1, 1], "1 for a real token"),
        ([0.5, 1, 1], "1 for a real token"),
        ([float("nan"), 1, 1], "1 for a real token"),
        ([1, 1, 0], "pad on the left"),
    ],
)
def test_a_mask_that_is_no_mask_is_refused_in_prefill(model, mask, said):
    inputs = {
        "input_ids": torch.ones(1, 3, dtype=torch.long),
        "attention_mask": torch.tensor([mask]),
    }
    with pytest.raises(ValueError, match=said):
        prefill(model, inputs)


def test_a_mask_that_hides_the_new_token_is_refused(model, tokenizer):
    inputs = encode(tokenizer, "soup")
    step = prefill(model, inputs)
    mask = append_one(inputs["attention_mask"])
    mask[:, -1] = 0
    with pytest.raises(ValueError, match="hides the new token"):
        decode_step(model, torch.ones(1, 1, dtype=torch.long), step.cache, mask)


def test_the_cache_of_another_model_is_refused(model, tokenizer):
    inputs = encode(tokenizer, "soup")
    other = prefill(tiny_model(num_hidden_layers=3), inputs)
    with pytest.raises(ValueError, match="3 layers and the model 2"):
        decode_step(
            model,
            torch.ones(1, 1, dtype=torch.long),
            other.cache,
            append_one(inputs["attention_mask"]),
        )


SMALL = {"vocab_size": 352, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def other_model(kind, **settings):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SMALL, **settings)).eval()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("falcon", {"multi_query": True}),
        ("deepseek_v3", {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8}
         | {"qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 2}),
    ],
)  # fmt: skip
def test_a_cache_whose_form_the_config_does_not_tell_is_taken(tokenizer, kind, settings):
    model = other_model(kind, **settings)
    run = generate(model, tokenizer, "soup", max_new_tokens=3, eos_token_ids=[])
    inputs = encode(tokenizer, "soup")
    library = model.generate(
        **inputs, max_new_tokens=3, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert run.generated_ids == library[0, inputs["input_ids"].shape[1] :].tolist()


def test_a_model_that_keeps_no_keys_and_values_is_refused_in_one_line(tokenizer):
    model = other_model("mamba", state_size=4)
    with pytest.raises(ValueError, match="keeps something else than keys and values"):
        generate(model, tokenizer, "soup", max_new_tokens=2, eos_token_ids=[])


def test_more_tokens_than_positions_are_refused_in_both_phases(tokenizer):
    inputs = encode(tokenizer, "soup")
    length = inputs["input_ids"].shape[1]
    full = tiny_model(max_position_embeddings=length)
    step = prefill(full, inputs)
    with pytest.raises(ValueError, match=f"{length + 1} tokens are more than the model's {length}"):
        decode_step(
            full,
            torch.ones(1, 1, dtype=torch.long),
            step.cache,
            append_one(inputs["attention_mask"]),
        )
    with pytest.raises(ValueError, match=f"{length} tokens are more than the model's {length - 1}"):
        prefill(tiny_model(max_position_embeddings=length - 1), inputs)


@pytest.mark.parametrize("wrong", [-1, 352])
def test_an_id_that_the_model_does_not_have_is_named(model, wrong):
    ids = torch.tensor([[1, wrong, 1]])
    with pytest.raises(ValueError, match=f"token id {wrong} is not among"):
        prefill(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def test_logits_that_are_no_numbers_end_the_run(tokenizer):
    broken = tiny_model()
    with torch.no_grad():
        broken.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="try float32"):
        generate(broken, tokenizer, "soup")


def test_a_sampler_may_return_any_whole_numbers_but_no_truth_values():
    logits = torch.zeros(2, 5)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert check_choice(torch.tensor([1, 4], dtype=dtype), logits).dtype == torch.long
    with pytest.raises(ValueError, match="from 0 to 4"):
        check_choice(torch.tensor([True, False]), logits)


def test_numpys_whole_numbers_are_whole_numbers(model, tokenizer):
    assert len(generate(model, tokenizer, "soup", max_new_tokens=np.int64(2)).steps) <= 2


@pytest.mark.parametrize("mask", [None, [[1, 1, 1]], "111"])
def test_a_mask_that_is_no_tensor_is_named_in_both_phases(model, mask):
    ids = torch.ones(1, 3, dtype=torch.long)
    kind = type(mask).__name__
    with pytest.raises(ValueError, match=rf"must be \[1, 3\] like input_ids, not {kind}"):
        prefill(model, {"input_ids": ids, "attention_mask": mask})
    step = prefill(model, {"input_ids": ids, "attention_mask": ids})
    with pytest.raises(ValueError, match=rf"attention_mask must be \[1, 4\], not {kind}"):
        decode_step(model, ids[:, :1], step.cache, mask)


@pytest.mark.parametrize(
    "mask", [[1, 0, 1, 1], [2, 2, 2, 1], [-1, 1, 1, 1], [float("nan"), 1, 1, 1]]
)
def test_a_mask_that_is_no_mask_is_refused_in_decode_too(model, mask):
    """The library would take each of them for ones and zeros of its own choice."""
    ids = torch.ones(1, 3, dtype=torch.long)
    step = prefill(model, {"input_ids": ids, "attention_mask": ids})
    with pytest.raises(ValueError, match=r"has a gap|1 for a real token"):
        decode_step(model, ids[:, :1], step.cache, torch.tensor([mask]))
    assert cached_length(step.cache) == 3


@pytest.mark.parametrize("shape", [(5,), (1, 1, 5)])
def test_a_prompt_of_another_form_is_named_in_the_stream(model, tokenizer, shape):
    ids = torch.ones(shape, dtype=torch.long)
    with pytest.raises(ValueError, match="one prompt at a time") as refused:
        next(stream(model, tokenizer, {"input_ids": ids, "attention_mask": ids}))
    assert str(list(shape)) in str(refused.value)


# --- files ----------------------------------------------------------------------------------------


def test_a_device_a_pipe_and_a_protected_file_are_not_replaced(tmp_path):
    pipe, protected = tmp_path / "pipe", tmp_path / "protected.json"
    os.mkfifo(pipe)
    protected.write_text("mine", "utf-8")
    protected.chmod(0o400)
    for path in (pipe, protected, tmp_path, "/dev/null"):
        with pytest.raises(InsideGenerateError, match="--output"):
            write_json({}, path)
    assert pipe.is_fifo()
    assert protected.read_text("utf-8") == "mine"


def test_a_folder_that_cannot_be_written_into_is_said_before_the_run(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(InsideGenerateError, match="is no folder that can be written into"):
        check_target(tmp_path / "file" / "run.json")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InsideGenerateError, match="is no folder that can be written into"):
        check_target(tmp_path / "new" / "run.json")


def test_a_link_is_followed_and_a_loop_of_links_is_refused(tmp_path):
    target, link, loop = tmp_path / "target.json", tmp_path / "link.json", tmp_path / "loop.json"
    target.write_text("old", "utf-8")
    link.symlink_to(target)
    write_json({"a": 1}, link)
    assert link.is_symlink()
    assert json.loads(target.read_text("utf-8")) == {"a": 1}
    loop.symlink_to(loop)
    with pytest.raises(InsideGenerateError, match="--output"):
        check_target(loop)


def test_a_long_file_name_can_be_written(tmp_path):
    assert write_json({}, tmp_path / ("n" * 250)).exists()


def test_weights_that_a_config_names_itself_are_refused(directory):
    change(directory / "config.json", transformers_weights="other.safetensors")
    with pytest.raises(InsideGenerateError, match="transformers_weights"):
        load(directory)


def test_weights_that_the_config_has_no_room_for_are_refused(directory):
    change(directory / "config.json", num_hidden_layers=1, layer_types=["full_attention"])
    with pytest.raises(InsideGenerateError, match="holds more than the weights of the model"):
        load(directory)


def test_a_changed_template_is_loaded_anew(directory):
    tokenizer, model = load(directory, "cpu", "float32")
    assert load(directory, "cpu", "float32")[0] is tokenizer
    (directory / "chat_template.jinja").write_text("{{ messages[0].content }}", "utf-8")
    again, other = load(directory, "cpu", "float32")
    assert other is not model
    assert again.chat_template != tokenizer.chat_template


def cut_head(content):
    return content[:100]


def head_too_long(content):
    return struct.pack("<Q", 2**64 - 1) + content[8:]


def head_of(**entries):
    """Return what writes a changed head into the bytes of a safetensors file."""

    def rewrite(content):
        (length,) = struct.unpack("<Q", content[:8])
        head = json.loads(content[8 : 8 + length])
        head["lm_head.weight"].update(entries)
        text = json.dumps(head).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return rewrite


@pytest.mark.parametrize(
    "harm",
    [
        *(lambda content: b"", lambda content: content[:-1], lambda content: content + b"\0"),
        *(cut_head, head_too_long, lambda content: content[:8] + b"x" + content[9:]),
        lambda content: b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1\n",
        lambda content: b"<html>404</html>",
        *(head_of(shape=shape) for shape in ([1], [-1, 3], "x", [2**62, 4])),
        *(head_of(data_offsets=ends) for ends in (None, [0], [5, 3], [0, 10**30])),
        *(head_of(dtype=kind) for kind in ("F16", "F32?", 3)),
    ],
)
def test_weights_damaged_in_any_way_are_refused_in_one_line(directory, harm):
    weights = directory / "model.safetensors"
    weights.write_bytes(harm(weights.read_bytes()))
    with pytest.raises(InsideGenerateError) as refused:
        load(directory, "cpu", "float32")
    assert str(directory) in str(refused.value)
    assert "\n" not in str(refused.value)


def change_tensor(directory, change, name="model.layers.0.self_attn.q_proj.weight"):
    weights = load_file(directory / "model.safetensors")
    weights[name] = change(weights[name])
    save_file(weights, directory / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize("kind", [torch.int8, torch.int32, torch.bool, torch.complex64])
def test_weights_in_whole_numbers_are_refused(directory, kind):
    """The library would take them as they stand, without the scale that they need."""
    change_tensor(directory, lambda tensor: tensor.to(kind))
    with pytest.raises(InsideGenerateError, match=r"q_proj\.weight in '.*not quantised"):
        load(directory, "cpu", "float32")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_no_number_is_refused_before_anything_is_computed(directory, wrong):
    change_tensor(directory, lambda tensor: tensor.index_fill(0, torch.tensor([3]), wrong))
    with pytest.raises(InsideGenerateError, match=r"NaN in model\.layers\.0.*load it as float32"):
        load(directory, "cpu", "float32")


def test_a_weight_too_large_for_the_dtype_is_refused_in_that_dtype_only(directory):
    change_tensor(directory, lambda tensor: tensor.index_fill(0, torch.tensor([3]), 1e5))
    assert load(directory, "cpu", "float32")[1].dtype is torch.float32
    with pytest.raises(InsideGenerateError, match=r"as torch\.float16; load it as float32"):
        load(directory, "cpu", "float16")


@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["", "{", "null", "[]"])
def test_settings_that_cannot_be_read_are_named(directory, name, content):
    """The library passes a broken generation config over: the EOS ids would be other ones."""
    (directory / name).write_text(content, "utf-8")
    with pytest.raises(InsideGenerateError, match=name):
        load(directory)


def test_a_tokenizer_cut_short_is_named_as_the_part_that_fails(directory):
    path = directory / "tokenizer.json"
    path.write_text(path.read_text("utf-8")[:500], "utf-8")
    with pytest.raises(InsideGenerateError, match="cannot load the tokenizer of"):
        load(directory, "cpu", "float32")


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(directory):
    (directory / "config.json").unlink()
    os.mkfifo(directory / "config.json")
    with pytest.raises(InsideGenerateError, match=r"config\.json is no plain file"):
        load(directory)


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
def test_a_config_that_asks_for_code_from_a_hub_is_refused(directory, name):
    change(directory / "config.json", **{name: "somebody/kernels"})
    with pytest.raises(InsideGenerateError, match=r"code from a hub.*somebody/kernels"):
        load(directory)


def test_code_of_a_known_architecture_is_left_alone_and_that_of_an_unknown_one_refused(directory):
    (directory / "modeling_mine.py").write_text("raise SystemExit('it was run')", "utf-8")
    change(directory / "config.json", auto_map={"AutoModelForCausalLM": "modeling_mine.Mine"})
    assert load(directory, "cpu", "float32")[1].config.model_type == "qwen2"
    change(directory / "config.json", model_type="mine")
    with pytest.raises(InsideGenerateError, match="Python code of its own"):
        load(directory)


def test_an_adapter_is_refused_for_it_changes_the_weights_of_another_model(directory):
    (directory / "adapter_config.json").write_text('{"base_model_name_or_path": "x"}', "utf-8")
    with pytest.raises(InsideGenerateError, match="holds an adapter"):
        load(directory)


def test_a_config_that_asks_for_plain_tuples_gets_named_outputs(directory):
    change(directory / "config.json", return_dict=False)
    tokenizer, model = load(directory, "cpu", "float32")
    assert len(generate(model, tokenizer, "soup", max_new_tokens=2).steps) == 2


def test_a_tokenizer_of_another_model_is_named_where_its_ids_reach_further(tokenizer):
    small = tiny_model(vocab_size=100, eos_token_id=None, pad_token_id=None)
    with pytest.raises(ValueError, match="do tokenizer and model belong together"):
        generate(small, tokenizer, "soup", eos_token_ids=[])


@pytest.mark.parametrize("name", ["../outside.safetensors", "/outside.safetensors"])
def test_weights_outside_the_directory_are_refused(directory, name):
    (directory / "model.safetensors").rename(directory.parent / "outside.safetensors")
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": name}}), "utf-8")
    with pytest.raises(InsideGenerateError, match="outside itself"):
        load(directory)


@pytest.mark.parametrize("weight_map", [[], None, {"a": 1}, "x"])
def test_an_index_of_another_form_is_one_line(directory, weight_map):
    (directory / "model.safetensors").unlink()
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}), "utf-8")
    with pytest.raises(InsideGenerateError):
        find(directory)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"model_type": ["qwen2"], "auto_map": {}}'])
def test_a_mad_config_is_one_line(directory, content):
    (directory / "config.json").write_text(content, "utf-8")
    with pytest.raises(InsideGenerateError):
        find(directory)


@pytest.mark.parametrize(
    "forged",
    [{"files": {}}, {"name": ["x"]}, {"files": {"model.safetensors": {"size": 1, "sha256": ""}}}],
)
def test_a_manifest_that_does_not_fit_its_weights_is_not_believed(directory, forged):
    manifest = {
        "name": "qwen2.5-0.5b-instruct",
        "model_id": "Qwen/Qwen2.5-0.5B-Instruct",
        "revision": "7ae5576",
        "files": {},
    }
    (directory / "inside_generate.json").write_text(json.dumps(manifest | forged), "utf-8")
    who = identity(load(directory, "cpu", "float32")[1])
    assert (who.name, who.model_id) == (None, str(directory))


@pytest.mark.parametrize(
    "content",
    ["null", "[]", '{"sha256": 5, "cpu_dtype": []}', "[" * 100_000, '{"cpu_dtype": {"x": 1}}'],
)
def test_mad_settings_count_as_none(directory, content):
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(content, "utf-8")
    _, model = load(directory, "cpu")
    assert identity(model).revision


@pytest.mark.parametrize("variable", ["INSIDE_GENERATE_MODEL", "INSIDE_GENERATE_HOME"])
def test_the_folder_of_nobody_is_one_line(monkeypatch, variable, capsys):
    monkeypatch.setenv(variable, "~nosuchuser/x")
    assert main(["run", "--device", "cpu"]) == 2
    assert capsys.readouterr().err.startswith("error: '~nosuchuser/x' names no user")


def test_a_notebook_shows_the_one_line_too():
    with capture_output() as captured:
        InteractiveShell().run_cell("from inside_generate import find; find('gpt-9')")
    assert captured.stdout.startswith("error: unknown model 'gpt-9'")
    assert "Traceback" not in captured.stdout + captured.stderr


@pytest.mark.parametrize("name", ["cpu:", "cpu:٣", "cpu:99999999999", "cuda:", "gpu", "cuda:1:2"])
def test_an_odd_device_is_named(name):
    with pytest.raises(InsideGenerateError, match="unknown device"):
        choose_device(name)


def test_an_empty_model_name_is_not_the_folder_one_is_in(directory, monkeypatch, capsys):
    monkeypatch.chdir(directory)
    for command in ("run", "fetch", "bench"):
        assert main([command, "--model", ""]) == 2
        assert "no model is named: choose auto, qwen2.5-0.5b" in capsys.readouterr().err
    assert find(".") == directory


def test_a_model_name_of_any_length_is_one_line(capsys):
    assert main(["run", "--device", "cpu", "--model", "x" * 5000]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- the terminal ---------------------------------------------------------------------------------


def test_control_characters_reach_the_terminal_as_escapes(capsys):
    say("a\x1b[2Jb\tc\nd\x9b")
    assert capsys.readouterr().out == "a\\x1b[2Jb\tc\nd\\x9b\n"


def test_a_terminal_that_knows_only_ascii_gets_escapes():
    code = "from inside_generate.__main__ import main, say; main_ = main; import sys\n"
    code += "try: main(['fly'])\nexcept SystemExit: say('── 今')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        check=True,
    )
    assert done.stdout == "\\u2500\\u2500 \\u4eca\n"
