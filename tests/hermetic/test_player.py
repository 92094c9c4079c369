"""The player's data says what the record says, and its HTML holds whatever a token spells."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from inside_generate import Player, generate
from inside_generate.player import player_data
from inside_generate.player_page import player_html, safe_json, script
from inside_generate.tokens import Spelling
from inside_generate.trace import Trace, top_candidates

LUNCH = "What's for lunch today?"


@pytest.fixture(scope="module")
def trace(model):
    from tests.tiny import tiny_tokenizer

    return generate(model, tiny_tokenizer(), LUNCH, max_new_tokens=5)


@pytest.fixture
def saying(model, tokenizer):
    """Return a function that makes the model answer a text, then end its turn."""

    def answer(text: str, end: bool = True) -> Trace:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        said = [*ids, tokenizer.eos_token_id] if end else ids
        row = iter(said)
        return generate(
            model,
            tokenizer,
            "soup",
            max_new_tokens=len(said),
            sampler=lambda _: torch.tensor([next(row)]),
        )

    return answer


def test_probabilities_are_softmax_over_the_whole_vocabulary(model, tokenizer, trace):
    logits = torch.randn(352, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    exact = logits.double().softmax(dim=-1)
    for one in top_candidates(tokenizer, logits):
        assert one.probability == pytest.approx(exact[one.token_id].item(), rel=1e-5)
    assert all(sum(c.probability for c in step.top_k) < 1 for step in trace.steps)


def test_the_player_shows_each_number_of_the_record(trace):
    data = player_data(trace)
    assert len(data["steps"]) == len(trace.steps) == 5
    for shown, step in zip(data["steps"], trace.steps, strict=True):
        assert shown["phase"] == step.phase
        assert shown["input_shape"] == list(step.input_shape)
        assert shown["logits_shape"] == list(step.logits_shape)
        assert shown["mask_length"] == step.mask_length
        assert shown["cache_length"] == step.cache_length
        assert shown["cache_bytes"] == trace.kv_bytes_a_token * step.cache_length
        assert shown["seconds"] == pytest.approx(step.seconds, abs=1e-6)
        assert [one["probability"] for one in shown["candidates"]] == [
            one.probability for one in step.top_k
        ]
        assert [one["id"] for one in shown["candidates"] if one["chosen"]] == [step.token_id]
    assert [one["id"] for one in data["prompt_tokens"]] == trace.prompt_ids


def test_bytes_of_the_cache_are_those_of_the_config(trace, model):
    assert trace.kv_bytes_a_token == 2 * 2 * 2 * 16 * 4  # K and V, layers, KV heads, size, fp32


@pytest.mark.parametrize("text", ["bread 🙂 今天", "soup", "é 🥢🥢", "<b>soup</b>"])
def test_pieces_of_the_answer_join_to_its_text(saying, text):
    trace = saying(text)
    assert "".join(step["adds"] for step in player_data(trace)["steps"]) == trace.text == text


def test_a_character_split_over_tokens_waits_until_it_is_whole(saying):
    steps = player_data(saying("🙂"))["steps"]
    assert [step["adds"] for step in steps] == ["", "", "", "🙂", ""]
    assert [step["pending"] for step in steps] == ["F0", "F0 9F", "F0 9F 99", "", ""]
    assert [step["token"]["partial"] for step in steps] == [True] * 4 + [False]
    assert steps[0]["token"]["text"] == r"\xf0"


def test_an_answer_cut_off_within_a_character_shows_its_bytes(saying):
    whole = saying("soup 🙂", end=False)
    cut = player_data(replace(whole, steps=whole.steps[:-1]))["steps"][-1]
    assert cut["adds"] == ""
    assert cut["pending"] == "F0 9F 99"


def test_the_token_that_ends_an_answer_adds_no_text_and_is_a_control_token(saying):
    end = player_data(saying("soup"))["steps"][-1]
    assert end["adds"] == ""
    assert end["token"]["control"]


def test_a_record_of_before_has_neither_probabilities_nor_spellings(trace):
    record = json.loads(json.dumps(trace.to_dict()))
    for key in ("spellings", "kv_bytes_a_token"):
        del record[key]
    for step in record["steps"]:
        for one in step["top_k"]:
            del one["probability"]
    old = Trace.from_dict(record)
    data = player_data(old)
    assert old.steps[0].top_k[0].probability is None
    assert data["steps"][0]["candidates"][0]["probability"] is None
    assert data["steps"][0]["cache_bytes"] is None
    assert "".join(step["adds"] for step in data["steps"]) == "".join(s.text for s in trace.steps)
    assert "–" in player_html([data])


# --- questions ------------------------------------------------------------------------------------


def test_each_question_stands_at_a_step_of_its_own_and_its_answer_is_the_records(trace):
    data = player_data(trace)
    asked = {one["step"]: one for one in data["questions"]}
    assert len(asked) == len(data["questions"]) == 4
    assert set(asked) >= {1, 2, 5}
    for number, one in asked.items():
        assert 2 <= len(one["answers"]) == len(set(one["answers"])) <= 4
        assert one["why"].endswith(".")
        if "token" in one["ask"] and one["answers"][0].startswith("“"):
            right = one["answers"][one["right"]]
            assert right == f"“{data['steps'][number - 1]['token']['text']}”"
    assert asked[2]["answers"][asked[2]["right"]] == "token 1 alone: [1, 1]"
    assert asked[5]["answers"][asked[5]["right"]] == "the limit of 5 new tokens"


def test_the_closest_choice_is_asked_for_among_the_steps_left(trace):
    margins = {s.number: s.top_k[0].logit - s.top_k[1].logit for s in trace.steps[2:-1]}
    [close] = [q for q in player_data(trace)["questions"] if "close" in q["ask"]]
    assert close["step"] == min(margins, key=margins.get)


@pytest.mark.parametrize(("place", "lower"), [(0, True), (1, False)])
def test_of_two_equal_logits_none_is_called_the_better_one(trace, place, lower):
    tied = trace.steps[2]
    ids = sorted(one.token_id for one in tied.top_k[:2])
    best, second = (
        replace(one, token_id=token_id, logit=1.0)
        for one, token_id in zip(tied.top_k, [ids[place], ids[1 - place]], strict=False)
    )
    step = replace(tied, token_id=best.token_id, top_k=(best, second, *tied.top_k[2:]))
    steps = (*trace.steps[:2], step, *trace.steps[3:])
    [close] = [q for q in player_data(replace(trace, steps=steps))["questions"] if q["step"] == 3]
    assert close["why"].startswith("Their logits are equal")
    assert "better" not in close["why"]
    assert ("lower id" in close["why"]) == lower


def test_of_a_first_token_with_an_equal_it_is_not_said_that_scores_decide(trace):
    best, second, *rest = trace.steps[0].top_k
    tied = replace(trace.steps[0], top_k=(best, replace(second, logit=best.logit), *rest))
    first, *_ = player_data(replace(trace, steps=(tied, *trace.steps[1:])))["questions"]
    assert "the same score" in first["why"]
    assert "decide" not in first["why"]
    assert "scores decide" in player_data(trace)["questions"][0]["why"]


def test_an_end_of_sequence_token_is_the_right_answer_where_it_ended_the_run(saying):
    last = player_data(saying("soup"))["questions"][-1]
    assert last["answers"][last["right"]] == "the model, by an end-of-sequence token"


def test_a_run_of_one_token_asks_for_that_token_alone(model, tokenizer):
    data = player_data(generate(model, tokenizer, "soup", max_new_tokens=1))
    assert [one["step"] for one in data["questions"]] == [1]
    assert data["tpot_s"] is None


# --- the page -------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """What a browser would find: the elements, and the text of the JSON."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.data.append(data)


def test_what_a_token_spells_ends_no_element_and_makes_none(saying):
    said = "</script><img src=x onerror=alert(1)><!-- <script>"
    data = player_data(saying(said))
    read = Reader(player_html([data]))
    assert read.tags.count("script") == 1
    assert {"img", "b"} & set(read.tags) == set()
    assert json.loads(read.data[0])["runs"] == [json.loads(json.dumps(data))]


def test_json_for_a_page_holds_no_tag_and_is_the_same_json():
    value = {"text": "</script><!--&\u2028"}
    assert "<" not in safe_json(value)
    assert json.loads(safe_json(value)) == value
    with pytest.raises(ValueError, match="not JSON compliant"):
        safe_json(float("nan"))


def test_the_table_for_readers_without_a_script_has_a_row_for_each_step(trace):
    html = player_html([player_data(trace)])
    assert html.count("<tr>") == 1 + len(trace.steps)
    assert "<details><summary>What&#x27;s for lunch today?" in html


def test_a_player_in_a_notebook_brings_its_program_and_its_style(trace):
    html = Player(trace)._repr_html_()
    assert html.count("</script>") == 2
    assert "customElements.define" in html
    assert repr(Player(trace)) == f"Player: 5 tokens after a prompt of {len(trace.prompt_ids)}"


def test_the_program_asks_for_no_module_no_network_and_no_markup():
    assert "</script" not in script()
    found = re.findall(r"\bfetch\(|XMLHttp|import\s*[({*]|innerHTML|https?://(?!www\.w3)", script())
    assert found == []


def test_a_run_of_512_tokens_grows_in_step_with_its_length(trace):
    long = replace(trace, steps=tuple(replace(trace.steps[1], number=n + 1) for n in range(512)))
    data = player_data(long)
    assert len(data["steps"]) == 512
    assert len(player_html([data])) < 512 * 1500


@pytest.mark.parametrize("value", [None, {}, "run"])
def test_what_is_no_trace_is_refused(value):
    with pytest.raises(ValueError, match="a Trace is wanted here"):
        player_data(value)


@pytest.mark.parametrize("about", ["run", [1]])
def test_what_is_no_record_of_a_run_is_refused(trace, about):
    with pytest.raises(ValueError, match="about must be a run's record"):
        Player(trace, about)


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": []},
        {"prompt": "\ud800"},
        {"kv_bytes_a_token": float("nan")},
        {"spellings": (Spelling(0, "00", False),)},
    ],
    ids=["no turn", "half a character", "NaN", "ids without spelling"],
)
def test_a_record_that_was_damaged_is_refused_in_one_line_before_it_is_shown(trace, changes):
    with pytest.raises(ValueError, match=r"^this run cannot be shown, .*; record it anew$"):
        Player(replace(trace, **changes))


@pytest.mark.parametrize("logit", [float("nan"), float("inf"), float("-inf")])
def test_a_logit_that_is_no_number_is_refused_before_it_is_shown(trace, logit):
    first, *others = trace.steps
    worst = replace(first, top_k=(replace(first.top_k[0], logit=logit), *first.top_k[1:]))
    with pytest.raises(ValueError, match=r"^this run cannot be shown"):
        Player(replace(trace, steps=(worst, *others)))


@pytest.mark.parametrize("spoilt", ["phase", "probability"])
def test_what_no_table_can_hold_is_refused_before_it_is_shown(trace, spoilt):
    first, *others = trace.steps
    best = replace(first.top_k[0], probability="most")
    changes = {"phase": 1} if spoilt == "phase" else {"top_k": (best, *first.top_k[1:])}
    with pytest.raises(ValueError, match=r"^this run cannot be shown"):
        Player(replace(trace, steps=(replace(first, **changes), *others)))


def test_a_player_of_one_token_says_so_in_the_singular(trace):
    one = replace(trace, steps=trace.steps[:1])
    assert repr(Player(one)).startswith("Player: 1 token after")


@pytest.mark.parametrize(("runs", "first"), [([], 0), ([{}], 1)])
def test_the_first_run_has_to_be_one_of_them(runs, first):
    with pytest.raises(ValueError, match="first must be one of"):
        player_html(runs, first)
