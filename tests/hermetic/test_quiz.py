"""The quiz is fit to be asked: one right answer, all explained, sections there, numbers true."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
import yaml
from nbformat.v4 import new_markdown_cell
from tests.little_book import make_book, write_notebook

import quiz
from chapters import notebooks
from inside_generate import kv_cache_bytes, logits_bytes
from inside_generate.cache import with_kv_heads
from inside_generate.flops import decode_flops
from inside_generate.reference import reference_config, reference_generation_config
from inside_generate.step_bytes import step_bytes_of
from inside_generate.timing import tpot_s
from pages import BookError

ROOT = Path(__file__).parents[2]
GROUPS = quiz.read_quiz(ROOT)
QUESTIONS = {one.key: one for questions in GROUPS.values() for one in questions}
REFERENCE = reference_config()
DEFAULTS = reference_generation_config()


def test_there_are_twenty_questions_and_the_page_asks_each_group():
    page = (ROOT / "book/quiz.md").read_text("utf-8")
    assert re.findall(r"```\{quiz\} (.*)", page) == list(GROUPS)
    assert len(QUESTIONS) == 20
    assert "Twenty questions" in page


def test_every_question_links_to_a_section_that_is_there():
    books = notebooks(ROOT)
    for one in QUESTIONS.values():
        assert quiz.link(one.section, books).startswith('<a href="../notebooks/')


def test_the_right_answer_is_not_always_in_the_same_place():
    places = [[one.right for one in each.answers].index(True) for each in QUESTIONS.values()]
    assert min(places.count(place) for place in range(3)) >= 5
    assert not any(a == b == c for a, b, c in zip(places, places[1:], places[2:], strict=False))


def test_no_answer_and_no_explanation_stands_twice():
    texts = [one.why for each in QUESTIONS.values() for one in each.answers]
    assert len(set(texts)) == len(texts)


def bf16(number: float) -> float:
    return torch.tensor(number, dtype=torch.bfloat16).item()


def numbers_of_a_token() -> list[float]:
    mha = with_kv_heads(REFERENCE, REFERENCE.num_attention_heads)
    kept = kv_cache_bytes(REFERENCE, 1)
    layers, heads = REFERENCE.num_hidden_layers, REFERENCE.num_attention_heads
    size = REFERENCE.hidden_size // heads
    parts = [layers, heads, REFERENCE.num_key_value_heads, size]
    return [*parts, kept, kv_cache_bytes(mha, 1), kept // 2, kept // layers, 16]


def numbers_of_a_step() -> list[float]:
    read, done = step_bytes_of(REFERENCE, 1024), decode_flops(REFERENCE, 1024)
    assert round(done / read) == 1
    return [16, 1024, 100, 1000, 1000 / 100, round(1e3 * read / 100e9), round(1e3 * done / 1e12)]


def numbers_of_the_logits() -> list[float]:
    logits, kept = logits_bytes(REFERENCE, 4096), kv_cache_bytes(REFERENCE, 4096)
    once = [4096, REFERENCE.vocab_size, torch.bfloat16.itemsize, 16]
    return [*once, logits, round(logits / kept), kv_cache_bytes(REFERENCE, 1)]


def numbers_of_the_pace() -> list[float]:
    prefill, step, tokens = 1.0, 0.1, 5
    total = prefill + step * (tokens - 1)
    decode = total - prefill
    pace = tpot_s([prefill, *[step] * (tokens - 1)])
    shares = [total / tokens, decode / tokens]
    return [prefill, step, tokens, tokens - 1, total, decode, pace, *shares, 1]


# What a question's numerals must be, computed: all of them, and no others.
NUMBERS = {
    "space-before-a-word": [],
    "rows-of-the-vocabulary": [
        REFERENCE.vocab_size,
        REFERENCE.hidden_size,
        DEFAULTS.pad_token_id,  # the first control token follows the base vocabulary
    ],
    "generation-prompt": [],
    "forged-turn": [],
    "last-row": [1],  # t + 1
    "greedy-is-local": [1],
    "do-sample-false": [DEFAULTS.repetition_penalty, 1.0, DEFAULTS.temperature],
    "tie-in-bf16": [18.03, 18.06, bf16(18.03), bf16(18.06), 16],
    "cache-at-the-end": [35, 13, 35 + 13, 35 + 13 - 1, 13 - 1, 1],
    "mask-not-grown": [8, 8 + 1],
    "cache-is-not-constant": [1],  # O(1)
    "past-stays": [],
    "who-stops": [],
    "two-from-one-prefill": [],
    "bytes-of-a-token": numbers_of_a_token(),
    "logits-or-cache": numbers_of_the_logits(),
    "floor-of-a-step": numbers_of_a_step(),
    "tpot": numbers_of_the_pace(),
    "ttft-of-a-batch": [10, 2, 2 / 10, 10 * 2],
    "padded-right": [3, 7],
}


def numerals(text: str) -> set[float]:
    """The numbers in a text, thousands put together; the version of a library is none."""
    text = re.sub(r"transformers \d+\.\d+\.\d+", "", text)
    return {float(one.replace(",", "")) for one in re.findall(r"\d+(?:[.,]\d+)*", text)}


@pytest.mark.parametrize("key", list(QUESTIONS))
def test_every_number_in_a_question_is_one_that_was_computed(key):
    one = QUESTIONS[key]
    texts = [one.question, *(part for each in one.answers for part in (each.text, each.why))]
    assert numerals(" ".join(texts)) == {round(float(number), 6) for number in NUMBERS[key]}


def test_the_version_of_the_library_in_a_question_is_the_one_that_is_installed():
    said = re.findall(r"transformers (\d+\.\d+\.\d+)", QUESTIONS["mask-not-grown"].question)
    assert said == [version("transformers")]


GOOD = {
    "key": "soup",
    "question": "Is it *hot*?",
    "section": "two#adding-up",
    "answers": [
        {"text": "Yes.", "why": "It was cooked.", "right": True},
        {"text": "`No`.", "why": "So it seems <b>."},
        {"text": "Never.", "why": "Try it."},
    ],
}
WRONG = {
    "no answers": ({"answers": []}, "'soup' must have three or four answers"),
    "a field too many": ({"colour": "red"}, "'soup' must have answers, key"),
    "two right ones": ({"answers": [GOOD["answers"][0]] * 3}, "must have one right answer"),
    "none right": ({"answers": GOOD["answers"][1:] * 2}, "must have one right answer"),
    "unexplained": (
        {"answers": [{"text": "x"}, *GOOD["answers"][:2]]},
        "an answer of 'soup' must have text and why",
    ),
    "half right": (
        {"answers": [{**GOOD["answers"][0], "right": "half"}, *GOOD["answers"][1:]]},
        "must have text and why, and may be right",
    ),
    "no words": ({"question": ""}, "question must be a sentence"),
}


@pytest.fixture
def book(tmp_path):
    root = make_book(tmp_path / "book")
    write_notebook(root / "notebooks/two.ipynb", new_markdown_cell("# Two\n\n## Adding up"))
    write_quiz(root, [GOOD])
    return root


def write_quiz(root: Path, questions: list) -> None:
    (root / quiz.QUIZ).write_text(yaml.safe_dump({"Soup": questions}, sort_keys=False))


@pytest.mark.parametrize("name", list(WRONG))
def test_a_question_that_cannot_be_asked_is_an_error_of_one_line(book, name):
    changes, message = WRONG[name]
    write_quiz(book, [GOOD | changes])
    with pytest.raises(BookError, match=rf"^book/quiz\.yml: .*{message}.*$"):
        quiz.read_quiz(book)


def test_two_questions_with_one_key_are_an_error(book):
    write_quiz(book, [GOOD, GOOD])
    with pytest.raises(BookError, match="two questions have the key soup"):
        quiz.read_quiz(book)


def test_a_section_that_is_not_there_is_an_error(book):
    for section in ("two#soup", "three#adding-up", "two"):
        with pytest.raises(BookError, match=f"there is no section {section}"):
            quiz.link(section, notebooks(book))


def test_a_question_is_whole_without_a_script_and_its_text_is_no_markup(book):
    [one] = quiz.read_quiz(book)["Soup"]
    html = quiz.html(7, one, notebooks(book))
    assert "<legend>7. Is it <em>hot</em>?</legend>" in html
    assert "<li><code>No</code>.</li>" in html
    assert "<li data-right><b>A is right.</b> <span>It was cooked.</span></li>" in html
    assert "<b>B is wrong.</b> <span>So it seems &lt;b&gt;.</span>" in html
    assert '<a href="../notebooks/two.html#adding-up">Two, “Adding up”</a>' in html
