"""Two runs are compared: agreement, the first parting, near ties, and files that are no runs."""

import copy
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inside_generate.comparing import compare
from inside_generate.comparing.compare import compare_runs, format_comparison, read_run
from inside_generate.comparing.near_ties import check_tolerance, default_tolerance
from inside_generate.comparing.run_file import UNDERSTOOD
from inside_generate.errors import InsideGenerateError

ARTICLE_KEYS_LEFT_OUT = (
    "schema_version", "device", "device_name", "dtype", "python_version", "date", "source_commit",
    "steps",
)  # fmt: skip


def a_run(ids=(11, 12, 13, 2), prompt=(5, 6, 7)):
    """Return a run in the course's form; the candidates' logits are 20, 18, 16, 14, 12."""
    steps = [a_step(number, token_id, len(prompt)) for number, token_id in enumerate(ids, start=1)]
    return {
        "schema_version": 1,
        "model_id": "some/model",
        "revision": "abc",
        "device": "cpu",
        "device_name": "a processor",
        "gpu_name": None,
        "dtype": "float32",
        "torch_version": "2.13.0",
        "cuda_version": None,
        "transformers_version": "5.24.0",
        "python_version": "3.11.0",
        "date": "2026-01-01T00:00:00+00:00",
        "source_commit": None,
        "prompt": "What's for lunch today?",
        "rendered_prompt": "<user>What's for lunch today?<assistant>",
        "input_ids": [list(prompt)],
        "input_shape": [1, len(prompt)],
        "full_logits_shape": [1, len(prompt), 100],
        "last_logits_shape": [1, 100],
        "top_k": copy.deepcopy(steps[0]["top_k"]),
        "generated_token_ids": list(ids),
        "generated_text": "Soup, I think.",
        "stop_reason": "eos",
        "max_new_tokens": 64,
        "eos_token_id": [2],
        "prompt_tokens": len(prompt),
        "generated_tokens": len(ids),
        "peak_allocated_mib": None,
        "steps": steps,
    }


def a_step(number, token_id, prompt_length):
    others = [1000 + 10 * number + rank for rank in range(1, 5)]
    return {
        "number": number,
        "phase": "prefill" if number == 1 else "decode",
        "token_id": token_id,
        "text": f"t{token_id}",
        "top_k": [
            {"token_id": other, "logit": 20.0 - 2 * rank, "text": f"t{other}"}
            for rank, other in enumerate([token_id, *others])
        ],
        "input_shape": [1, prompt_length if number == 1 else 1],
        "logits_shape": [1, 1, 100],
        "mask_length": prompt_length + number - 1,
        "cache_length": prompt_length + number - 1,
        "seconds": 0.1,
    }


def plain(run):
    """Return the run in the article's form."""
    return {key: value for key, value in run.items() if key not in ARTICLE_KEYS_LEFT_OUT}


def changed(run, edit):
    """Return a copy on which ``edit`` was called."""
    other = copy.deepcopy(run)
    edit(other)
    return other


def with_other_token(number, token_id):
    """Return an edit that lets the run choose another token at this step, and say so throughout."""

    def edit(run):
        run["generated_token_ids"][number - 1] = token_id
        run["steps"][number - 1]["token_id"] = token_id
        run["steps"][number - 1]["text"] = f"t{token_id}"

    return edit


def set_logits(run, number, logits):
    """Give the candidates of a step these logits, in the order in which they stand."""
    for one, logit in zip(run["steps"][number - 1]["top_k"], logits, strict=False):
        one["logit"] = logit
    if number == 1:
        run["top_k"] = copy.deepcopy(run["steps"][0]["top_k"])


def written(folder, content, name="run.json"):
    """Return a file with this content: bytes, text, or anything as JSON."""
    path = folder / name
    if isinstance(content, str):
        content = content.encode()
    elif not isinstance(content, bytes):
        content = json.dumps(content).encode()
    path.write_bytes(content)
    return path


# --- agreement ------------------------------------------------------------------------------------


def test_a_run_agrees_with_itself_and_says_how_far_that_was_checked():
    comparison = compare_runs(a_run(), a_run())
    assert comparison.verdict == "agree"
    assert comparison.findings == ()
    assert comparison.largest_difference == 0
    assert comparison.not_compared == ()
    assert "agree: 3 prompt ids, 4 generated ids, the logits of 4 tokens" in format_comparison(
        comparison
    )


def test_logits_within_the_tolerance_agree_and_the_largest_difference_is_told():
    other = changed(a_run(), lambda run: set_logits(run, 3, [20.0004, 18, 16, 14, 12]))
    comparison = compare_runs(a_run(), other)
    assert comparison.verdict == "agree"
    assert comparison.largest_difference == pytest.approx(0.0004)


def test_near_ties_that_change_places_agree_and_are_said_to_be_near_ties():
    reference = changed(a_run(), lambda run: set_logits(run, 2, [20, 18.0002, 18.0001, 14, 12]))
    other = changed(a_run(), lambda run: set_logits(run, 2, [20, 18.0001, 18.0002, 14, 12]))
    comparison = compare_runs(reference, other)
    assert comparison.verdict == "agree"
    assert (
        "token 2: near tie, 1021 't1021' and 1022 't1022' change places "
        "(0.0001 apart in the reference)"
    ) in comparison.remarks


def test_equal_logits_have_no_order_that_could_be_changed():
    run = changed(a_run(), lambda run: set_logits(run, 2, [20, 18, 18, 14, 12]))
    assert compare_runs(run, run).remarks == ()


def test_of_many_remarks_only_the_first_few_are_printed():
    reference, other = a_run(ids=range(1, 21)), a_run(ids=range(1, 21))
    for number in range(1, 21):
        set_logits(reference, number, [20, 18.0002, 18.0001])
        set_logits(other, number, [20, 18.0001, 18.0002])
    comparison = compare_runs(reference, other)
    assert len(comparison.remarks) == 21
    assert format_comparison(comparison).count("near tie") == 7
    assert "and 13 more" in format_comparison(comparison)


def test_candidates_listed_in_another_order_are_sorted_and_agree():
    other = changed(a_run(), lambda run: run["steps"][1]["top_k"].reverse())
    comparison = compare_runs(a_run(), other)
    assert comparison.verdict == "agree"
    assert any("best first" in remark for remark in comparison.remarks)


def test_steps_listed_in_another_order_are_sorted_by_their_numbers():
    comparison = compare_runs(a_run(), changed(a_run(), lambda run: run["steps"].reverse()))
    assert comparison.verdict == "agree"
    assert any("order of their numbers" in remark for remark in comparison.remarks)


def test_a_shorter_list_of_candidates_agrees_as_far_as_it_goes():
    other = changed(a_run(), lambda run: [step["top_k"].pop() for step in run["steps"]])
    other["top_k"].pop()
    assert compare_runs(a_run(), other).verdict == "agree"


@pytest.mark.parametrize("spell", [str, float], ids=["text", "floats"])
def test_ids_in_another_spelling_are_read_as_numbers(spell):
    other = a_run()
    other["generated_token_ids"] = [spell(token_id) for token_id in other["generated_token_ids"]]
    comparison = compare_runs(a_run(), other)
    assert comparison.verdict == "agree"
    assert any("token ids are written" in remark for remark in comparison.remarks)


def test_0_is_a_token_id():
    assert compare_runs(a_run(ids=(0, 2)), a_run(ids=(0, 2))).verdict == "agree"


def test_a_flat_list_of_prompt_ids_is_read_like_a_nested_one():
    other = changed(a_run(), lambda run: run.update(input_ids=run["input_ids"][0]))
    assert compare_runs(a_run(), other).verdict == "agree"


def test_another_model_dtype_or_version_is_context_and_no_disagreement():
    other = {**a_run(), "model_id": "another/model", "dtype": "bfloat16", "torch_version": "2.12"}
    comparison = compare_runs(a_run(), other)
    assert comparison.verdict == "agree"
    assert [line.split(":")[0] for line in comparison.context] == [
        "model_id",
        "dtype",
        "torch_version",
    ]
    assert "other tokens are to be expected" in comparison.context[0]


def test_another_mask_is_remarked_at_the_first_token_where_it_differs():
    def stuck(run):
        for step in run["steps"]:
            step["mask_length"] = 3

    comparison = compare_runs(a_run(), changed(a_run(), stuck))
    assert "mask_length differs from token 2 on: 4 against 3" in comparison.remarks


# --- the article's plain form ---------------------------------------------------------------------


def test_the_articles_form_is_compared_and_the_lack_of_logits_is_said():
    comparison = compare_runs(a_run(), plain(a_run()))
    assert comparison.verdict == "agree"
    assert comparison.not_compared == ("the logits of 3 tokens (not in both files)",)
    assert "as far as both files go" in format_comparison(comparison)


def test_one_is_counted_in_the_singular():
    run = a_run()
    run |= {"generated_token_ids": run["generated_token_ids"][:1], "steps": run["steps"][:1]}
    run["generated_tokens"] = 1
    same = compare_runs(run, run).agreed
    assert "1 generated id" in same
    assert "the logits of 1 token" in same


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("input_ids", "prompt ids (not in the other)"),
        ("generated_token_ids", "generated ids (not in the other)"),
        ("generated_text", "generated text (not in the other)"),
        ("stop_reason", "stop reason (not in the other)"),
        ("top_k", "the logits of 4 tokens (not in both files)"),
    ],
)
def test_a_missing_key_is_said_and_the_rest_is_compared(key, said):
    comparison = compare_runs(a_run(), {k: v for k, v in plain(a_run()).items() if k != key})
    assert comparison.verdict == "agree"
    assert said in comparison.not_compared


def test_an_engine_that_has_only_prefill_is_compared_on_that():
    reference, other = a_run(), {key: a_run()[key] for key in ("input_ids", "top_k")}
    assert "the logits after prefill" in compare_runs(reference, other).agreed
    other["top_k"][0]["logit"] = 25.0
    (finding,) = compare_runs(reference, other).findings
    assert (finding.where, finding.step, finding.near_tie) == ("prefill", 1, False)


def test_without_ids_in_common_the_rendered_prompts_are_compared():
    other = {"rendered_prompt": "<user>What is it?<assistant>", "stop_reason": "eos"}
    assert compare_runs(a_run(), other).findings[0].where == "prompt"


def test_files_that_share_nothing_are_no_agreement():
    with pytest.raises(InsideGenerateError, match="nothing to compare"):
        compare_runs({"stop_reason": "eos"}, {"generated_text": "Soup."})


# --- partings -------------------------------------------------------------------------------------


def test_the_first_other_prompt_id_is_found_and_the_rest_is_not_compared():
    other = changed(a_run(prompt=(5, 9, 8)), with_other_token(1, 77))
    comparison = compare_runs(a_run(), other)
    assert [finding.where for finding in comparison.findings] == ["prompt"]
    assert "prompt id 1 (counted from 0): 6 in the reference, 9" in comparison.findings[0].lines[0]
    assert "the tokenizers are not" in comparison.findings[0].lines[1]


def test_a_prompt_that_was_rendered_otherwise_is_shown_where_it_parts():
    reference = {**a_run(), "rendered_prompt": "a" * 100 + "b" + "c" * 100}
    other = {**a_run(prompt=(5, 9, 7)), "rendered_prompt": "a" * 100 + "d" + "c" * 100}
    before, after = "a" * 24, "c" * 23
    assert compare_runs(reference, other).findings[0].lines[1] == (
        "rendered prompt, parted at character 100, here with its surroundings: "
        f"'{before}b{after}' in the reference, "
        f"'{before}d{after}' in the other"
    )


@pytest.mark.parametrize(
    ("prompt", "hint"),
    [((1, 5, 6, 7), "one id more in front"), ((5, 6), "lacks the last 1 ids")],
    ids=["a special token twice", "no generation prompt"],
)
def test_common_mistakes_with_the_prompt_are_named(prompt, hint):
    assert hint in compare_runs(a_run(), a_run(prompt=prompt)).findings[0].lines[-1]


def test_another_token_is_found_at_its_step_with_both_texts_and_the_margin():
    comparison = compare_runs(a_run(), changed(a_run(), with_other_token(3, 77)))
    (finding,) = comparison.findings
    assert (finding.where, finding.step) == ("decode", 3)
    assert finding.lines[0] == "token 3 (decode): 13 't13' in the reference, 77 't77' in the other"
    assert "13 't13' with 20, 1031 't1031' with 18; the margin 2 is more" in finding.lines[1]
    assert format_comparison(comparison).splitlines()[-1] == (
        "part at token 3 (decode): not explained by rounding"
    )


def test_a_first_token_that_differs_is_prefills():
    (finding,) = compare_runs(a_run(), changed(a_run(), with_other_token(1, 77))).findings
    assert (finding.where, finding.step) == ("prefill", 1)


def near_tie_runs():
    """Return two runs whose two best logits of token 2 are 18.03 and 18.06, either way round."""

    def swap(run):
        best, second = run["steps"][1]["top_k"][:2]
        best["logit"], second["logit"] = 18.03, 18.06
        with_other_token(2, second["token_id"])(run)

    reference = changed(a_run(), lambda run: set_logits(run, 2, [18.06, 18.03, 16, 14, 12]))
    return {**reference, "dtype": "bfloat16"}, {**changed(a_run(), swap), "dtype": "bfloat16"}


def test_a_near_tie_that_fell_the_other_way_is_explained_by_rounding():
    comparison = compare_runs(*near_tie_runs())
    assert (comparison.verdict, comparison.findings[0].near_tie) == ("part", True)
    assert format_comparison(comparison).endswith("a near tie, explained by rounding")


def test_the_same_flip_is_a_bug_where_the_tolerance_is_below_the_margin():
    assert compare_runs(*near_tie_runs(), tolerance=0.01).findings[0].near_tie is False


def test_a_near_tie_is_no_excuse_for_logits_that_differ():
    reference, other = near_tie_runs()
    set_logits(other, 2, [25.0, 26.0, 16, 14, 12])
    finding = compare_runs(reference, other).findings[0]
    assert finding.near_tie is False
    assert "the logits themselves differ" in finding.lines[-1]


def test_equal_logits_and_a_choice_below_the_best_points_at_the_choice():
    other = changed(a_run(), with_other_token(2, 1021))  # the second best of that step
    finding = compare_runs(a_run(), other).findings[0]
    assert finding.near_tie is False
    assert "did not pick its own best token" in finding.lines[-1]


def test_either_of_two_equal_logits_counts_as_the_best():
    def tie(run):
        set_logits(run, 2, [18.0, 18.0, 16, 14, 12])

    reference = changed(a_run(), tie)
    other = changed(reference, with_other_token(2, 1021))
    assert compare_runs(reference, other, tolerance=0).findings[0].near_tie is True
    assert compare_runs(other, reference, tolerance=0).findings[0].near_tie is True


def test_without_the_others_logits_the_references_margin_decides():
    """Each of the two may be off by the tolerance: up to twice that, only these would tell."""
    reference = changed(a_run(), lambda run: set_logits(run, 2, [18.0004, 18, 16, 14, 12]))
    for token_id, near_tie in ((1021, True), (1022, False), (77, False)):
        other = plain(changed(reference, with_other_token(2, token_id)))
        assert compare_runs(reference, other).findings[0].near_tie is near_tie
    other = plain(changed(a_run(), with_other_token(2, 1021)))  # 2 below the best
    for tolerance, near_tie in ((2, True), (1.99, None), (1, None), (0.99, False)):
        assert compare_runs(a_run(), other, tolerance).findings[0].near_tie is near_tie


@pytest.mark.parametrize(("tolerance", "near_tie"), [(3.9, False), (4, None), (8, None)])
def test_a_choice_outside_the_candidates_lies_at_least_as_low_as_the_last(tolerance, near_tie):
    other = plain(changed(a_run(), with_other_token(2, 77)))  # the candidates end 8 below the best
    assert compare_runs(a_run(), other, tolerance).findings[0].near_tie is near_tie


def test_two_logits_that_moved_towards_each_other_are_a_near_tie_too():
    reference = changed(a_run(), lambda run: set_logits(run, 2, [20, 18.5, 16, 14, 12]))
    other = changed(reference, lambda run: set_logits(run, 2, [19.2, 19.3, 16, 14, 12]))
    finding = compare_runs(reference, changed(other, with_other_token(2, 1021)), 1).findings[0]
    assert finding.near_tie is True
    assert finding.lines[-1] == "a near tie: 1.5 apart, and each logit is within 1"


@pytest.mark.parametrize("kept", [2, 1])
def test_the_margin_is_told_where_there_are_two_candidates(kept):
    def shorten(run):
        run["steps"][2]["top_k"] = run["steps"][2]["top_k"][:kept]

    other = changed(a_run(), with_other_token(3, 77))
    lines = compare_runs(changed(a_run(), shorten), other).findings[0].lines
    assert any("the reference's two best" in line for line in lines) == (kept == 2)


def test_without_any_logits_near_tie_or_bug_is_left_open():
    other = plain(changed(a_run(), with_other_token(2, 1021)))
    finding = compare_runs(plain(a_run()), other).findings[0]
    assert (finding.step, finding.near_tie) == (2, None)
    assert "holds no logits of this step" in finding.lines[-1]


def test_a_reference_that_did_not_take_its_best_token_is_not_judged_by_margins():
    reference = changed(a_run(), with_other_token(2, 1022))
    finding = compare_runs(reference, a_run()).findings[0]
    assert finding.near_tie is None
    assert "not a greedy run" in finding.lines[-1]


def test_other_logits_behind_the_same_token_are_found_at_their_step():
    other = changed(a_run(), lambda run: set_logits(run, 2, [20, 18.5, 16, 14, 12]))
    comparison = compare_runs(a_run(), other)
    (finding,) = comparison.findings
    assert (finding.step, finding.near_tie) == (2, False)
    assert "1021 't1021' is 18 in the reference and 18.5 in the other" in finding.lines[1]
    assert finding.lines[-1] == "the ids are the same to the end"
    assert compare_runs(a_run(), other, tolerance=1).verdict == "agree"


def test_a_candidate_that_stands_too_high_to_be_left_out_is_missed():
    def replace_second(run):
        run["steps"][2]["top_k"][1]["token_id"] = 88

    (finding,) = compare_runs(a_run(), changed(a_run(), replace_second)).findings
    assert finding.step == 3
    assert "1031 't1031' has 18 in the reference and is not among" in finding.lines[1]
    assert "88 't1031' has 18 in the other and is not among" in finding.lines[2]


def test_a_last_candidate_may_be_another_one_where_it_is_a_near_tie():
    def replace_last(run):
        run["steps"][2]["top_k"][4].update(token_id=88, logit=12.5)

    other = changed(a_run(), replace_last)
    assert compare_runs(a_run(), other, 0.5).verdict == "agree"
    assert compare_runs(a_run(), other, 0.49).verdict == "part"


@pytest.mark.parametrize("swap", [False, True], ids=["the other ends", "the reference ends"])
def test_a_run_that_ends_early_parts_at_the_first_token_it_lacks(swap):
    pair = [a_run(), {**a_run(ids=(11, 12)), "stop_reason": "max_new_tokens", "max_new_tokens": 2}]
    comparison = compare_runs(*reversed(pair)) if swap else compare_runs(*pair)
    (finding,) = comparison.findings
    assert (finding.where, finding.step) == ("end", 3)
    assert "nothing in the " + ("reference" if swap else "other") in finding.lines[0]
    assert any("max_new_tokens 2" in line for line in finding.lines)


@pytest.mark.parametrize(
    ("key", "value"), [("stop_reason", "max_new_tokens"), ("generated_text", "Soup, I thank.")]
)
def test_another_stop_reason_or_text_is_found_at_the_end(key, value):
    comparison = compare_runs(a_run(), {**a_run(), key: value})
    assert repr(value) in comparison.findings[0].lines[0]
    assert [finding.where for finding in comparison.findings] == ["end"]
    assert format_comparison(comparison).splitlines()[-1] == "part at the end"


# --- files that are faulty in themselves ----------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, 10**400])
def test_a_logit_that_is_no_number_is_a_parting_at_its_step_even_with_itself(value):
    run = changed(a_run(), lambda run: set_logits(run, 2, [20, value, 16, 14, 12]))
    for pair in ((run, run), (a_run(), run), (run, a_run())):
        comparison = compare_runs(*pair)
        assert comparison.verdict == "part"
        assert comparison.findings[0].step == 2


def test_a_nan_anywhere_is_never_agreement():
    run = changed(a_run(), lambda run: run["steps"][3].update(seconds=math.nan))
    comparison = compare_runs(a_run(), run)
    assert comparison.verdict == "part"
    assert comparison.findings[0].lines == (
        "the other is faulty in itself: steps[3].seconds is nan",
    )


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda run: run["steps"][2].update(token_id=9), "token 3 is 13 in generated_token_ids"),
        (lambda run: run["steps"].pop(), "holds 4 ids and steps holds 3"),
        (lambda run: run.update(generated_tokens=5), "generated_tokens is 5, but there are 4"),
        (lambda run: run.update(prompt_tokens=2), "prompt_tokens is 2, but there are 3"),
        (lambda run: run["top_k"][0].update(logit=20.0001), "is not the top_k of the first step"),
    ],
)
def test_a_file_that_contradicts_itself_is_never_agreement(edit, said):
    comparison = compare_runs(a_run(), changed(a_run(), edit))
    assert comparison.verdict == "part"
    assert said in comparison.findings[-1].lines[0]


# --- bad input ------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_one_line_that_says_how_to_make_one(tmp_path):
    with pytest.raises(InsideGenerateError, match=r"no such file.*run --output"):
        read_run(tmp_path / "none.json")


def test_a_directory_is_no_run(tmp_path):
    with pytest.raises(InsideGenerateError, match="is a directory"):
        read_run(tmp_path)


def test_a_name_that_no_file_can_have_is_no_traceback(tmp_path):
    for name in ("\0", "n" * 5000):
        with pytest.raises(InsideGenerateError):
            read_run(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("hello", r"not JSON: Expecting value \(line 1, column 1\)"),
        ('{"a": 1}\n{"b": 2}', r"not JSON: Extra data \(line 2, column 1\)"),
        ('{\n "a": 1,\n "b": [1, 2', r"cut off in the middle \(line 3"),
        ('{"a": "half a te', "cut off in the middle"),
        (b"\xff\xff\xff\xff", "not text in UTF-8"),
        ("[" * 100_000, "cannot be read"),
        ('{"stop_reason": ' + "9" * 5000 + "}", "cannot be read"),
        ("[1, 2]", "JSON object, and this is a list"),
        ("7", "JSON object, and this is a number"),
        ("{}", "none of the keys input_ids"),
        ('{"schema_version": 1, "rungs": []}', "none of the keys input_ids"),
        ('{"schema_version": 2}', "schema_version is 2, and this program understands 1"),
        ('{"schema_version": "1"}', "schema_version is '1'"),
        ('{"schema_version": true}', "schema_version is True"),
        ('{"schema_version": 1, "input_ids": [[1]]}', "missing: top_k, generated_token_ids, gen"),
    ],
)
def test_content_that_is_no_run_is_refused_in_one_line(tmp_path, content, said):
    with pytest.raises(InsideGenerateError, match=said) as caught:
        read_run(written(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert "run.json" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("input_ids", "5 6 7", "input_ids must be a list, not '5 6 7'"),
        ("input_ids", [[5], [6]], "holds 2 prompts"),
        ("input_ids", [[5], 6], r"input_ids\[0\] must be a token id"),
        ("input_ids", [["x"]], r"input_ids\[0\]\[0\] must be a token id \(0, 1, 2 …\), not 'x'"),
        ("generated_token_ids", [1, -1], r"generated_token_ids\[1\] must be a token id"),
        ("generated_token_ids", [True], r"generated_token_ids\[0\] must be a token id"),
        ("generated_token_ids", [1.5], r"generated_token_ids\[0\] must be a token id"),
        ("generated_text", 7, "generated_text must be text, not 7"),
        ("stop_reason", ["eos"], "stop_reason must be text"),
        ("dtype", 16, "dtype must be text"),
        ("generated_tokens", "4", "generated_tokens must be 0, 1, 2"),
        ("steps", {}, "steps must be a list"),
        ("steps", [7], r"steps\[0\] must be an object, not a number"),
        ("steps", [{}], r"steps\[0\] has no token_id"),
        ("steps", [{"token_id": 1, "number": "one"}], r"steps\[0\].number must be"),
        ("steps", [{"token_id": 1, "top_k": [{}]}], r"steps\[0\].top_k\[0\] has no token_id"),
        ("top_k", ["a"], r"top_k\[0\] must be an object, not text"),
        ("top_k", [{"token_id": 1, "logit": "9"}], r"top_k\[0\].logit must be a number, not '9'"),
        ("top_k", [{"token_id": 1, "logit": 9}] * 2, "top_k names the same token id twice"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_place(tmp_path, key, value, said):
    with pytest.raises(InsideGenerateError, match=said):
        read_run(written(tmp_path, {**plain(a_run()), key: value}))


def test_a_byte_order_mark_or_utf_16_is_read(tmp_path):
    text = json.dumps(a_run())
    for encoding in ("utf-8-sig", "utf-16"):
        assert read_run(written(tmp_path, text.encode(encoding))) == a_run()


def test_the_version_that_is_understood_is_the_one_that_run_writes():
    from inside_generate import record

    assert UNDERSTOOD == record.SCHEMA_VERSION
    assert record.run_schema()["properties"]["schema_version"] == {"const": UNDERSTOOD}


# --- tolerance ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtypes", "tolerance"),
    [
        (("float32", "float32"), 1e-3),
        (("float32", "torch.bfloat16"), 0.5),
        (("bf16", "float16"), 0.5),
        (("fp16", "float32"), 0.125),
        (("float32", None), 1e-3),
        ((None, None), 0.5),
        (("float32", "q4_k_m"), 0.5),
    ],
)
def test_the_default_tolerance_is_that_of_the_coarser_dtype(dtypes, tolerance):
    assert default_tolerance(*dtypes)[0] == tolerance


def test_a_coarse_dtypes_tolerance_is_a_few_of_the_spacings_that_it_names():
    import torch

    for name in ("bfloat16", "float16"):
        spacing = 16 * torch.finfo(getattr(torch, name)).eps  # of the numbers from 16 to 32
        tolerance, reason = default_tolerance(name)
        assert 4 <= tolerance / spacing <= 8
        assert f"{spacing:.3g} apart" in reason


@pytest.mark.parametrize("tolerance", [-0.1, math.nan, math.inf, True, "0.1"])
def test_a_tolerance_that_is_no_finite_number_of_at_least_0_is_refused(tmp_path, tolerance):
    with pytest.raises(InsideGenerateError, match="--tolerance must be"):
        check_tolerance(tolerance)
    path = written(tmp_path, a_run())
    with pytest.raises(InsideGenerateError, match="--tolerance must be"):
        compare.run(path, path, tolerance, print)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_says_one_text_and_returns_0_or_1(tmp_path):
    said = []
    same = written(tmp_path, a_run())
    other = written(tmp_path, changed(a_run(), with_other_token(2, 7)), "other.json")
    assert compare.run(same, same, None, said.append) == 0
    assert compare.run(same, other, None, said.append) == 1
    assert compare.run(same, other, 100.0, said.append) == 1
    assert said[0].splitlines()[-1].startswith("agree: ")
    assert said[1].splitlines()[-1].startswith("part at token 2 (decode)")
    assert "0.001: for float32" in said[0]
    assert "100: as asked for" in said[2]


def test_comparing_needs_neither_torch_nor_transformers(tmp_path):
    import subprocess
    import sys

    path = written(tmp_path, a_run())
    code = (
        "import sys; from inside_generate.comparing import compare\n"
        f"assert compare.run({str(path)!r}, {str(path)!r}, None, lambda text: None) == 0\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- whatever comes -------------------------------------------------------------------------------

no_clock = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

runs = st.builds(
    a_run,
    ids=st.lists(st.integers(0, 900), min_size=1, max_size=6),
    prompt=st.lists(st.integers(0, 900), min_size=1, max_size=6),
)
no_run = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=8,
)


def places(value, path=()):
    """Return the path of every value inside a parsed JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


@no_clock
@given(runs, st.sampled_from([lambda run: run, plain]))
def test_any_run_agrees_with_itself(run, form):
    assert compare_runs(form(run), form(run)).verdict == "agree"


@no_clock
@given(runs, st.data(), st.integers(1000, 2000), st.sampled_from([lambda run: run, plain]))
def test_any_changed_token_is_found_at_its_step(run, data, token_id, form):
    number = data.draw(st.integers(1, len(run["steps"])))
    comparison = compare_runs(form(run), form(changed(run, with_other_token(number, token_id))))
    assert (comparison.verdict, comparison.findings[0].step) == ("part", number)


@no_clock
@given(runs, st.data(), st.integers(1000, 2000))
def test_any_changed_prompt_id_is_found_at_its_place(run, data, token_id):
    index = data.draw(st.integers(0, len(run["input_ids"][0]) - 1))
    other = changed(run, lambda run: run["input_ids"][0].__setitem__(index, token_id))
    first_line = compare_runs(run, other).findings[0].lines[0]
    assert first_line.startswith(f"prompt id {index} (counted from 0)")


@no_clock
@given(
    runs,
    st.data(),
    st.floats(0, 1, allow_subnormal=False),
    st.floats(-3, 3, allow_subnormal=False),
)
def test_logits_agree_exactly_where_no_one_moved_by_more_than_the_tolerance(
    run, data, tolerance, move
):
    number = data.draw(st.integers(1, len(run["steps"])))
    other = changed(run, lambda run: set_logits(run, number, [20 + move]))
    moved = abs(other["steps"][number - 1]["top_k"][0]["logit"] - 20)
    assert (compare_runs(run, other, tolerance).verdict == "agree") == (moved <= tolerance)


@settings(no_clock, max_examples=300)
@given(runs, st.data(), no_run)
def test_a_mangled_run_raises_only_the_error_meant_for_people(tmp_path, run, data, value):
    path = data.draw(st.sampled_from(list(places(run))))
    at(run, path[:-1])[path[-1]] = value
    if data.draw(st.booleans()):
        run.pop("schema_version", None)
    path = written(tmp_path, run)
    try:
        lines = format_comparison(compare_runs(a_run(), read_run(path))).splitlines()
        one_line_expected = False
    except InsideGenerateError as error:
        lines = str(error).splitlines()
        one_line_expected = True
    assert len(lines) == 1 or not one_line_expected


@no_clock
@given(data=st.data())
def test_a_run_cut_off_anywhere_is_refused_as_cut_off(tmp_path, data):
    content = json.dumps(a_run(), indent=2).encode()
    end = data.draw(st.integers(1, len(content) - 1))
    with pytest.raises(InsideGenerateError, match="cut off in the middle"):
        read_run(written(tmp_path, content[:end]))


@no_clock
@given(content=st.binary(max_size=50) | no_run.map(json.dumps))
def test_any_other_file_raises_only_the_error_meant_for_people(tmp_path, content):
    with pytest.raises(InsideGenerateError):
        read_run(written(tmp_path, content))
