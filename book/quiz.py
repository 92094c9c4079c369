"""Sphinx extension for the quiz: the questions of `quiz.yml`, as HTML that a script brings to life.

The directive `{quiz}` with a group's name writes the questions of that group. Without JavaScript
each is a question with its answers and a folded explanation; with it (`_static/quiz.js`) a reader
chooses, sees why, and gets a score that is kept nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors.index import slugify
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from chapters import check_links, headings, notebooks, read_list, table, words
from pages import BookError

QUIZ = Path("book/quiz.yml")
FIELDS = {"key", "question", "section", "answers"}
LETTERS = "ABCD"
MARK = "inside_generate_quiz"


@dataclass(frozen=True)
class Answer:
    """One answer: what it says, whether it is right, and why it is, or why it is tempting."""

    text: str
    right: bool
    why: str


@dataclass(frozen=True)
class Question:
    """A question with its answers and the section that shows the right one."""

    key: str
    question: str
    section: str  # notebook#slug of the heading
    answers: list[Answer]


def read_quiz(root: Path) -> dict[str, list[Question]]:
    """The questions by group, in order. BookError for a quiz that is not fit to be asked."""
    found = {}
    for group, entries in table(read_list(root, QUIZ), QUIZ, "the file").items():
        if not isinstance(entries, list) or not entries:
            raise BookError(f"{QUIZ}: {group} must be a list of questions, not {entries!r:.60}")
        found[group] = [question(entry) for entry in entries]
    keys = [one.key for questions in found.values() for one in questions]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise BookError(f"{QUIZ}: two questions have the key {twice[0]}")
    return found


def question(entry: Any) -> Question:
    """One question, if it has all its fields, three or four answers, and one that is right."""
    fields = table(entry, QUIZ, "a question")
    name = repr(fields.get("key"))
    if set(fields) != FIELDS:
        raise BookError(f"{QUIZ}: {name} must have {', '.join(sorted(FIELDS))}")
    key, asked, section = (words(fields[x], QUIZ, x) for x in ("key", "question", "section"))
    if not isinstance(fields["answers"], list) or len(fields["answers"]) not in (3, 4):
        raise BookError(f"{QUIZ}: {name} must have three or four answers")
    answers = [answer(one, name) for one in fields["answers"]]
    if [one.right for one in answers].count(True) != 1:
        raise BookError(f"{QUIZ}: {name} must have one right answer")
    return Question(key, asked, section, answers)


def answer(entry: Any, name: str) -> Answer:
    """One answer. ``right: true`` stands in the right one alone."""
    fields = table(entry, QUIZ, f"an answer of {name}")
    right = fields.get("right", False)
    if set(fields) - {"right"} != {"text", "why"} or right not in (True, False):
        raise BookError(f"{QUIZ}: an answer of {name} must have text and why, and may be right")
    return Answer(words(fields["text"], QUIZ, "text"), right, words(fields["why"], QUIZ, "why"))


def link(section: str, books: dict[str, Any]) -> str:
    """The HTML link to a section, ``notebook#slug``. BookError where there is none."""
    name, _, slug = section.partition("#")
    found = (
        [heading for cell in books[name].cells for heading in headings(cell)]
        if name in books
        else []
    )
    anchors = check_links(name, [found])
    if slug not in anchors:
        raise BookError(f"{QUIZ}: there is no section {section}")
    heading = found[anchors.index(slug)]
    place = f"../notebooks/{name}.html#{nodes.make_id(heading)}"
    return f'<a href="{place}">{inline(found[0])}, “{inline(heading)}”</a>'


def inline(text: str) -> str:
    """HTML of one line of Markdown; anything that looks like HTML is escaped."""
    return str(MarkdownIt("zero").enable(["backticks", "emphasis"]).renderInline(text))


def reason(letter: str, one: Answer) -> str:
    """Why an answer is right or wrong, as HTML."""
    mark, word = (" data-right", "right") if one.right else ("", "wrong")
    return f"<li{mark}><b>{letter} is {word}.</b> <span>{inline(one.why)}</span></li>"


def html(number: int, one: Question, books: dict[str, Any]) -> str:
    """A question as HTML: a group of its own, with answers and a folded explanation."""
    answers = "".join(f"<li>{inline(each.text)}</li>" for each in one.answers)
    reasons = "".join(map(reason, LETTERS, one.answers))
    return (
        f'<fieldset class="quiz" id="quiz-{escape(slugify(one.key))}">'
        f"<legend>{number}. {inline(one.question)}</legend>"
        f'<ol type="A">{answers}</ol>'
        f'<details><summary>Answers explained</summary><ul class="reasons">{reasons}</ul></details>'
        f'<p class="shown-in">Shown in {link(one.section, books)}.</p></fieldset>'
    )


class Quiz(SphinxDirective):
    """Writes the questions of one group, numbered through all groups."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """One raw node for each question."""
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / QUIZ))
        self.env.metadata[self.env.docname][MARK] = True
        groups, wanted = read_quiz(root), self.arguments[0]
        if wanted not in groups:
            raise BookError(f"{QUIZ}: there is no group {wanted}")
        books = notebooks(root)
        every = [(group, one) for group, questions in groups.items() for one in questions]
        numbered = [(n, one) for n, (group, one) in enumerate(every, 1) if group == wanted]
        return [nodes.raw("", html(n, one, books), format="html") for n, one in numbered]


def add_files(app: Sphinx, page: str, _template: str, _context: Any, _tree: Any) -> None:
    """Load script and style on pages with a quiz only."""
    if app.env.metadata.get(page, {}).get(MARK):
        app.add_css_file("quiz.css")
        app.add_js_file("quiz.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("quiz", Quiz)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
