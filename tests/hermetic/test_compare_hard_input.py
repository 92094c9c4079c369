"""Files for `compare` that were cut, mangled or made up: a verdict or one line, never a traceback.

What a whole file of the known form is answered stands in `test_compare.py`.
"""

import json
import os
import random
import sys
from pathlib import Path

import pytest

from inside_generate.__main__ import main
from inside_generate.comparing import json_file
from inside_generate.comparing.compare import compare_runs, format_comparison, read_run
from inside_generate.comparing.run_file import as_run
from inside_generate.errors import InsideGenerateError

LONGEST_LINE = 800  # characters of a line that is printed


def a_run(count=4):
    """Return a run with steps of two candidates; some of its text is Chinese, as files have it."""
    steps = [
        {
            "number": number,
            "token_id": 10 + number,
            "text": "午饭",
            "top_k": [
                {"token_id": 10 + number, "logit": 20.0, "text": "午饭"},
                {"token_id": 90, "logit": 18.0, "text": " soup"},
            ],
            "mask_length": 2 + number,
        }
        for number in range(1, count + 1)
    ]
    return {
        "schema_version": 1,
        "dtype": "float32",
        "rendered_prompt": "<user>今天午饭吃什么?",
        "input_ids": [[5, 6, 7]],
        "top_k": steps[0]["top_k"],
        "generated_token_ids": [step["token_id"] for step in steps],
        "generated_text": "午饭" * count,
        "stop_reason": "max_new_tokens",
        "max_new_tokens": count,
        "steps": steps,
    }


def text_of(run) -> bytes:
    """Return the file as the command writes it."""
    return (json.dumps(run, indent=2, ensure_ascii=False) + "\n").encode()


def written(folder, content, name="run.json"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else text_of(content))
    return path


def answer(path) -> str:
    """Return what comparing a good run with the file says, the refusal included."""
    try:
        said = format_comparison(compare_runs(a_run(), read_run(path)))
        assert said.splitlines()[-1].startswith(("agree", "part"))
    except InsideGenerateError as error:
        said = str(error)
        assert "\n" not in said
    assert max(map(len, said.splitlines())) <= LONGEST_LINE
    return said


# --- cut ------------------------------------------------------------------------------------------


def test_a_file_cut_at_any_byte_is_said_to_be_cut_off(tmp_path):
    content = text_of(a_run(2))
    inside = [place for place, byte in enumerate(content) if byte >= 0x80]  # of a character
    for end in sorted({*range(1, len(content) - 1, 17), *inside}):
        assert "cut off in the middle" in answer(written(tmp_path, content[:end]))


def test_half_a_character_of_utf_16_is_cut_off_too(tmp_path):
    content = text_of(a_run()).decode().encode("utf-16")
    assert "cut off in the middle of a character" in answer(written(tmp_path, content[:101]))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-7", "cp1252"])
def test_text_in_another_encoding_is_refused_or_read_and_never_misread(tmp_path, encoding):
    run = {**a_run(), "generated_text": "entrée"}
    content = json.dumps(run, ensure_ascii=False).replace("午饭", "").replace("今天吃什么", "")
    said = answer(written(tmp_path, content.encode(encoding, errors="ignore")))
    assert "not text in UTF-8" in said or "part" in said


# --- mangled --------------------------------------------------------------------------------------


def mangled(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with one piece changed, lost, doubled or moved."""
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.choice([1, 1, 2, 8, 60]))
    before, piece, after = content[:start], content[start:end], content[end:]
    place = chance.randrange(len(after) + 1)
    return chance.choice(
        [
            before + bytes(chance.randrange(256) for _ in piece) + after,
            before + chance.choice([b"9", b'"', b"-", b"null", b"NaN", b"[", b"}"]) + after,
            before + after,
            before + piece + piece + after,
            before + after[:place] + piece + after[place:],
        ]
    )


def test_a_file_mangled_anywhere_gets_a_verdict_or_one_line(tmp_path):
    chance = random.Random(20260101)
    plain = {key: value for key, value in a_run().items() if key not in ("schema_version", "steps")}
    for form in (a_run(), plain):
        content = text_of(form)
        for _ in range(250):
            answer(written(tmp_path, mangled(content, chance)))


def test_a_key_that_stands_twice_is_refused_wherever_it_stands(tmp_path):
    for twice in ('{"stop_reason": "eos", "stop_reason": "eos"}', '{"a": [{"b": 1, "b": 2}]}'):
        assert "stands twice in one object" in answer(written(tmp_path, twice.encode()))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([1, 2, 4, 5], "of the steps, 4 follows 2"),
        ([1, 2, 2, 3], "of the steps, 2 follows 2"),
        ([4, 3, 1, 1], "of the steps, 1 follows 1"),
        ([0, 0, 1, 2], "of the steps, 0 follows 0"),
        ([2, 3, 4, 5], "the first number of the steps is 2"),
    ],
)
def test_steps_that_are_missing_or_there_twice_are_a_fault(numbers, said):
    run = a_run()
    for step, number in zip(run["steps"], numbers, strict=True):
        step["number"] = number
    assert any(said in fault for fault in as_run(run, "it").faults)


@pytest.mark.parametrize("numbers", [[1, 2, 3, 4], [0, 1, 2, 3], [1, 2, None, 4], [None] * 4])
def test_steps_may_be_counted_from_0_or_not_at_all(numbers):
    run = a_run()
    for step, number in zip(run["steps"], numbers, strict=True):
        step["number"] = number
    assert compare_runs(a_run(), run).verdict == "agree"


# --- nothing in it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "empty",
    [
        {"input_ids": [[]], "generated_token_ids": [], "generated_text": "", "steps": []},
        {"input_ids": [], "generated_token_ids": [], "stop_reason": "eos"},
        {"generated_text": "", "stop_reason": "eos"},
        {"stop_reason": "eos"},
        {"top_k": []},
    ],
)
def test_two_empty_runs_are_no_agreement(empty):
    with pytest.raises(InsideGenerateError, match="nothing to compare"):
        compare_runs(empty, empty)


def test_an_empty_run_parts_from_a_full_one_where_it_lacks_the_first_token():
    empty = {"input_ids": [[5, 6, 7]], "generated_token_ids": [], "steps": []}
    for pair in ((a_run(), empty), (empty, a_run())):
        assert compare_runs(*pair).findings[0].step == 1
    assert compare_runs(a_run(), {**empty, "input_ids": [[]]}).findings[0].where == "prompt"


def test_a_prompt_without_an_answer_agrees_on_the_prompt_alone():
    run = {"input_ids": [[5, 6, 7]], "generated_token_ids": []}
    comparison = compare_runs(run, run)
    assert comparison.agreed == ("3 prompt ids",)
    assert "generated ids (empty in both)" in comparison.not_compared


# --- too large ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2**63, 10**4000, 1e300, -1.0, float("inf")])
def test_a_number_that_no_vocabulary_reaches_is_no_token_id(value):
    for key in ("generated_token_ids", "input_ids"):
        with pytest.raises(InsideGenerateError, match=r"\[0\] must be a token id"):
            compare_runs(a_run(), {key: [value]})


def test_long_values_are_shortened_wherever_they_are_shown(tmp_path):
    long = "lunch\n" * 1000
    run = {**a_run(), "max_new_tokens": 10**4000, "generated_tokens": 10**4000, "stop_reason": long}
    run |= {"model_id": long, "dtype": long, "generated_text": long}
    run["steps"][1] |= {"token_id": 7, "text": long, "mask_length": 10**4000}
    run["generated_token_ids"] = run["generated_token_ids"][:3]
    reference = {**a_run(), "model_id": "one"}
    said = format_comparison(compare_runs(reference, run))
    assert max(map(len, said.splitlines())) <= LONGEST_LINE
    answer(written(tmp_path, {**run, "schema_version": 10**4000}))
    plain = {key: run[key] for key in run.keys() - {"steps", "schema_version"}}
    answer(written(tmp_path, plain))


def test_no_text_in_a_file_can_write_a_line_of_its_own():
    forged = "x\nagree: everything"
    run = {**a_run(), "model_id": forged, "dtype": forged, "stop_reason": forged}
    run["steps"][0]["text"] = run["generated_text"] = forged
    run["generated_token_ids"][0] = run["steps"][0]["token_id"] = 7
    lines = format_comparison(compare_runs({**a_run(), "model_id": "y"}, run)).splitlines()
    assert [line for line in lines if line.startswith("agree")] == []


def test_of_a_whole_vocabulary_of_candidates_only_a_few_are_named():
    rows = [[{"token_id": i, "logit": sign * 1e-4 * i} for i in range(400)] for sign in (1, -1)]
    ours, theirs = ({"top_k": row} for row in rows)
    comparison = compare_runs(ours, theirs)
    assert comparison.verdict == "agree"
    assert len(comparison.remarks) <= 6
    assert comparison.remarks[-1] == "token 1: near tie, and 396 pairs more"
    nan = {"top_k": [{"token_id": i, "logit": None} for i in range(400)]}
    (finding,) = compare_runs(ours, nan).findings
    assert finding.lines[3:] == ("and 397 logits more",)


@pytest.mark.parametrize("spell", [int, str])
def test_twice_the_ids_are_twice_the_work_and_little_for_each(spell):
    calls = [calls_for(length, spell) for length in (2000, 4000)]
    assert calls[1] <= 2.1 * calls[0]
    assert calls[0] <= 30 * 2000


def calls_for(length, spell) -> int:
    """Return how many functions are called while two runs of this length are compared."""
    run = {"generated_token_ids": [spell(index % 900) for index in range(length)]}
    count = 0

    def watch(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        compare_runs(run, run)
    finally:
        sys.setprofile(before)
    return count


def test_a_dict_that_holds_itself_does_not_hang():
    run = a_run()
    run["more"] = run["again"] = [run]
    assert compare_runs(a_run(), run).verdict == "agree"


@pytest.mark.parametrize("nest", ['{"a":', "["])
@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_deep_nesting_is_read_or_refused(tmp_path, nest, depth):
    end = {"[": "]", "{": "}"}[nest[0]]
    inner = nest * depth + "1" + end * depth
    content = text_of(a_run()).replace(
        b'"schema_version"', f'"x": {inner}, "schema_version"'.encode()
    )
    assert answer(written(tmp_path, content)).splitlines()[-1]


# --- no file at all -------------------------------------------------------------------------------


def test_a_file_too_large_for_memory_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    path.write_bytes(b"[]," * 500)
    monkeypatch.setattr(json_file, "MOST_BYTES", 1000)
    with pytest.raises(InsideGenerateError, match=r"has 1,500 bytes, .* 1,000 at most"):
        read_run(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in answer(tmp_path / "pipe")


def test_what_is_no_file_or_must_not_be_read_is_one_line(tmp_path, monkeypatch):
    assert "not a regular file" in answer(Path(os.devnull))
    path = written(tmp_path, a_run())

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "cannot be read (Permission denied)" in answer(path)


# --- the command ----------------------------------------------------------------------------------


def test_the_exit_status_tells_agreement_parting_and_bad_input_apart(tmp_path, capsys):
    good, other = written(tmp_path, a_run()), {**a_run(), "generated_text": "soup"}
    plain = {key: value for key, value in a_run().items() if key not in ("schema_version", "steps")}
    cut = text_of(a_run())[:100]
    for content, status in ((a_run(), 0), (plain, 0), (other, 1), (cut, 2), (b"", 2), (b"[]", 2)):
        assert main(["compare", str(good), str(written(tmp_path, content, "o.json"))]) == status
        complaint = capsys.readouterr().err
        assert complaint.startswith("error: ") == (status == 2)
        assert complaint.count("\n") == (status == 2)
