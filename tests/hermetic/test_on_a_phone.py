"""The course in short takes chapters, questions and summaries from the notebooks, or refuses."""

from pathlib import Path

import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell
from tests.little_book import make_book, write_notebook

import pages
import phone
from inside_generate import kv_cache_bytes
from inside_generate.cache import head_dim, kv_heads
from inside_generate.reference import reference_config
from pages import BookError

ROOT = Path(__file__).parents[2]
FIRST = """\
# Two

<p class="path">here</p>

All about [*soup*](../book/glossary.md#soup), after [one](one.ipynb).

## Overview

**Time**: 5 minutes. **You need**: a spoon."""
ASKING = "We cook.\n\n**Predict**: is it\nhot? Or cold?"
ANSWER = "It is. See [one](one.ipynb#a). The rest is not taken.\n\nNor is this."
SUMMARY = "Ready.\n\n## Summary\n\n- Soup is [*hot*](../book/glossary.md#hot).\n"


def write_book(root: Path, *cells: str) -> None:
    """A chapter of the given cells of prose, with code between them."""
    made = [kind(cell) for cell in cells for kind in (new_markdown_cell, lambda _: code())]
    write_notebook(root / "notebooks/two.ipynb", *made)


def code():
    return new_code_cell("1 + 1")


@pytest.fixture
def book(tmp_path):
    root = make_book(tmp_path / "book")
    write_book(root, FIRST, ASKING, ANSWER, SUMMARY)
    write_list(root, [{"predict": "is it hot", "sentences": 2}])
    return root


def write_list(root: Path, entries) -> None:
    (root / phone.LIST).write_text(yaml.safe_dump({"two": entries}, sort_keys=False))


def test_every_chapter_of_the_book_is_there_in_order():
    notebooks = [path.stem for path in pages.documents(ROOT) if path.suffix == ".ipynb"]
    shorts = phone.chapters_in_short(ROOT)
    assert [short.name for short in shorts] == notebooks
    assert all(1 <= len(short.questions) <= 3 for short in shorts)
    assert all(short.summary.count("\n- ") + 1 >= 4 for short in shorts)


def test_an_answer_in_the_lists_own_words_has_numbers_that_were_computed():
    config = reference_config()
    numbers = [config.num_hidden_layers, kv_heads(config), head_dim(config)]
    assert numbers == [24, 2, 64]
    [asked] = [
        (question, answer)
        for short in phone.chapters_in_short(ROOT)
        for question, answer in short.questions
        if short.name == "10_kv_cache_memory" and "how many bytes" in question
    ]
    assert "24 layers and 2 KV heads of 64 numbers" in asked[0]
    product = "2 (a key and a value) · 24 layers · 2 KV heads · 64 numbers a head · 2 bytes"
    assert f"{product} = {kv_cache_bytes(config, 1):,} bytes" in asked[1]


def test_no_text_ends_in_the_middle():
    for short in phone.chapters_in_short(ROOT):
        for question, answer in short.questions:
            assert question.endswith(("?", "?*", ".", "…")), question
            assert answer.endswith((".", ".)", "?")), answer


def test_a_chapter_is_its_opening_a_question_with_an_answer_and_its_summary(book):
    [short] = phone.chapters_in_short(book)
    assert (short.title, short.minutes) == ("Two", "5 minutes")
    assert short.opening == (
        "All about [*soup*](glossary.md#soup), after [one](../notebooks/one.ipynb)."
    )
    assert short.questions == [
        ("**Predict**: is it hot? Or cold?", "It is. See [one](../notebooks/one.ipynb#a).")
    ]
    assert short.summary == "- Soup is [*hot*](glossary.md#hot)."


def test_an_edit_of_a_notebook_is_an_edit_of_the_page(book):
    write_book(book, FIRST, ASKING, "It is not. At all.", SUMMARY)
    [short] = phone.chapters_in_short(book)
    assert short.questions[0][1] == "It is not. At all."


def test_a_folded_answer_below_the_question_is_taken(book):
    folded = "<details><summary>Diagnosis</summary>\n\nNo.\nIt was forgotten.\n\n</details>"
    write_book(book, FIRST, f"{ASKING}\n\n{folded}", ANSWER, SUMMARY)
    write_list(book, [{"predict": "is it hot"}])
    [short] = phone.chapters_in_short(book)
    assert short.questions[0][1] == "No. It was forgotten."


def test_a_question_and_an_answer_of_the_lists_own_come_first(book):
    write_list(book, [{"predict": "is it hot", "ask": "**Predict**: hot?", "answer": "Yes."}])
    assert phone.chapters_in_short(book)[0].questions == [("**Predict**: hot?", "Yes.")]


SENTENCES = {
    f"{count!r} sentences": (
        [{"predict": "is it hot", "sentences": count}],
        "sentences of two must be a whole number from 1, not",
    )
    for count in (0, -1, True, None, 1.5, "two")
}
ENTRIES = SENTENCES | {
    "a piece that is not there": ([{"predict": "is it cold"}], "0 predictions with 'is it cold'"),
    "prose that asks nothing": ([{"predict": "We cook"}], "0 predictions with 'We cook'"),
    "no list": ("is it hot", "must be a list of predictions, not 'is it hot'"),
    "an empty list": ([], "must be a list of predictions"),
    "a word": (["is it hot"], "a prediction of two must be a table"),
    "another field": ([{"predict": "is it hot", "x": 1}], "predict, ask, and one of answer"),
    "both": (
        [{"predict": "is it hot", "sentences": 1, "answer": "Yes."}],
        "one of answer and sentences",
    ),
}


@pytest.mark.parametrize("name", list(ENTRIES))
def test_an_entry_that_does_not_fit_the_chapter_is_an_error_of_one_line(book, name):
    entries, message = ENTRIES[name]
    write_list(book, entries)
    with pytest.raises(BookError, match=rf"^book/on_a_phone\.yml: .*{message}.*$"):
        phone.chapters_in_short(book)


CHAPTERS = {
    "no time": ([FIRST.replace("Time", "Tea"), ASKING, ANSWER, SUMMARY], "two has no .*Time"),
    "no summary": ([FIRST, ASKING, ANSWER], "two has no ## Summary"),
    "two summaries": ([FIRST, ASKING, ANSWER, SUMMARY, SUMMARY], "or more than one"),
    "no opening": (
        ["# Two\n\n## Overview\n\n**Time**: 5 minutes", ASKING, ANSWER, SUMMARY],
        "the first cell must say what the chapter is about",
    ),
    "no answer": ([FIRST, ASKING, "## Next", SUMMARY], "no answer follows .*: give one"),
}


@pytest.mark.parametrize("name", list(CHAPTERS))
def test_a_chapter_that_lacks_a_part_is_an_error_of_one_line(book, name):
    cells, message = CHAPTERS[name]
    write_book(book, *cells)
    with pytest.raises(BookError, match=rf"^.*{message}.*$"):
        phone.chapters_in_short(book)
