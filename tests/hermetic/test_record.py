"""The file of a run: valid against its schema, readable, and written whole or not at all."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from inside_generate import InsideGenerateError, Trace, generate, run_record
from inside_generate.record import run_schema, write_json

MESSAGES = [
    {"role": "system", "content": "Kurz, bitte: ä ö 🙂"},
    {"role": "user", "content": "今天午饭吃什么?"},
]


ARTICLE = """
    gpu_name torch_version cuda_version transformers_version model_id revision prompt
    rendered_prompt input_ids input_shape full_logits_shape last_logits_shape top_k
    generated_token_ids generated_text stop_reason max_new_tokens peak_allocated_mib eos_token_id
    prompt_tokens generated_tokens
"""
DESIGN = "schema_version device device_name dtype python_version date source_commit steps"
OPTIONAL = {"kv_bytes_a_token", "spellings"}  # not in older records, nor in those of other engines


@pytest.fixture(scope="module")
def validator():
    schema = run_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.FormatChecker()
    assert "date-time" in checker.checkers, "rfc3339-validator is missing: dates would pass unseen"
    return jsonschema.Draft202012Validator(schema, format_checker=checker)


@pytest.fixture(scope="module", params=["string", "messages", "all logits", "one token"])
def record(request, model):
    from tests.tiny import tiny_tokenizer

    trace = generate(
        model,
        tiny_tokenizer(),
        MESSAGES if request.param == "messages" else "soup",
        max_new_tokens=1 if request.param == "one token" else 4,
        keep_all_logits=request.param == "all logits",
    )
    return run_record(trace, model)


@pytest.fixture
def changed(record):
    return copy.deepcopy(record)


# --- the schema -----------------------------------------------------------------------------------


def test_a_run_is_valid_against_the_schema(record, validator):
    validator.validate(json.loads(json.dumps(record)))


def test_the_record_has_the_keys_of_the_article_and_of_the_design(record):
    assert set(record) == set(f"{ARTICLE} {DESIGN}".split()) | OPTIONAL


def test_on_a_cpu_what_only_a_gpu_has_is_null_and_not_0(record):
    assert record["gpu_name"] is None
    assert record["peak_allocated_mib"] is None
    assert record["device_name"]


@pytest.mark.parametrize("key", sorted(run_schema()["required"]))
def test_a_record_that_lacks_a_key_is_not_valid(changed, validator, key):
    del changed[key]
    with pytest.raises(jsonschema.ValidationError, match=key):
        validator.validate(changed)


def test_the_schema_asks_for_every_key_that_it_describes():
    schema = run_schema()
    assert set(schema["required"]) == set(schema["properties"]) - OPTIONAL
    step = schema["$defs"]["step"]
    assert set(step["required"]) == set(step["properties"])


WRONG = {
    "another version": ("schema_version", 2),
    "version as text": ("schema_version", "1"),
    "unknown key": ("temperature", 0.7),
    "no model": ("model_id", None),
    "a day that is not": ("date", "2025-02-30T00:00:00+00:00"),
    "a date without zone": ("date", "2025-02-03T00:00:00"),
    "no date": ("date", "yesterday"),
    "another dtype": ("dtype", "torch.float32"),
    "flat input ids": ("input_ids", [1, 2]),
    "two prompts": ("input_ids", [[1], [2]]),
    "no prompt": ("input_ids", [[]]),
    "negative id": ("generated_token_ids", [-1]),
    "id as text": ("generated_token_ids", ["1"]),
    "nothing generated": ("generated_token_ids", []),
    "another reason": ("stop_reason", "length"),
    "no limit": ("max_new_tokens", 0),
    "eos not a list": ("eos_token_id", 2),
    "six candidates": ("top_k", [{"token_id": 1, "logit": 0.5, "text": "a"}] * 6),
    "candidate without logit": ("top_k", [{"token_id": 1, "text": "a"}]),
    "peak as text": ("peak_allocated_mib", "12 MiB"),
    "shape of zero": ("input_shape", [1, 0]),
    "flat shape": ("full_logits_shape", [5]),
    "no steps": ("steps", []),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_record_that_says_something_impossible_is_not_valid(changed, validator, case):
    key, value = WRONG[case]
    changed[key] = value
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(changed)


@pytest.mark.parametrize(
    ("key", "value"),
    [("number", 0), ("phase", "warm-up"), ("cache_length", 0), ("seconds", -0.1), ("extra", 1)],
)
def test_a_step_that_says_something_impossible_is_not_valid(changed, validator, key, value):
    changed["steps"][0][key] = value
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(changed)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


# --- the file -------------------------------------------------------------------------------------


def test_the_file_gives_the_run_back(record, tmp_path):
    path = write_json(record, tmp_path / "run.json")
    read = json.loads(path.read_text(encoding="utf-8"))
    assert read == record
    assert Trace.from_dict(read).to_dict() == Trace.from_dict(record).to_dict()


def test_the_file_is_indented_by_2_keeps_characters_as_they_are_and_ends_in_a_newline(tmp_path):
    path = write_json({"a": {"text": "今天 🙂 é"}}, tmp_path / "run.json")
    expected = '{\n  "a": {\n    "text": "今天 🙂 é"\n  }\n}\n'
    assert path.read_bytes() == expected.encode("utf-8")


def test_folders_are_made_on_the_way(tmp_path):
    path = write_json({}, tmp_path / "new" / "er" / "run.json")
    assert path.read_text() == "{}\n"


def test_a_path_may_be_given_as_text_and_is_returned(tmp_path):
    assert write_json({}, str(tmp_path / "run.json")) == tmp_path / "run.json"


def test_an_older_file_is_replaced_and_nothing_else_is_left(tmp_path):
    write_json({"run": 1}, tmp_path / "run.json")
    write_json({"run": 2}, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text()) == {"run": 2}
    assert names_in(tmp_path) == ["run.json"]


@pytest.mark.parametrize("moment", ["write_bytes", "replace"])
def test_a_write_that_breaks_off_leaves_the_older_file_and_nothing_half_written(
    tmp_path, monkeypatch, moment
):
    path = write_json({"run": 1}, tmp_path / "run.json")

    def full(target, *args, **kwargs):
        if moment == "write_bytes":
            target.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, moment, full)
    with pytest.raises(InsideGenerateError, match="No space left on device"):
        write_json({"run": 2}, path)
    assert json.loads(path.read_bytes()) == {"run": 1}
    assert names_in(tmp_path) == ["run.json"]


def test_a_path_that_cannot_be_written_is_one_line_that_names_it(tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "run.json", tmp_path / "folder"):
        with pytest.raises(InsideGenerateError, match="--output") as error:
            write_json({}, path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)
    assert names_in(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_path_without_a_file_name_is_one_line_too(path):
    with pytest.raises(InsideGenerateError, match=r"cannot write .*--output"):
        write_json({}, path)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_know_is_refused_before_anything_is_written(tmp_path, number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"logit": number}, tmp_path / "new" / "run.json")
    assert not names_in(tmp_path)


def test_half_a_character_leaves_nothing_half_written(tmp_path):
    with pytest.raises(ValueError, match="surrogates not allowed"):
        write_json({"text": "\ud83d"}, tmp_path / "run.json")
    assert not names_in(tmp_path)
