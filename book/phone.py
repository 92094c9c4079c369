"""Sphinx extension for the page "Read on a phone": each chapter in short, from its own notebook.

The directive `{chapters-in-short}` writes a section for each chapter that `on_a_phone.yml` names:
its minutes, its opening, some of its predictions with a folded answer, and its summary. All of that
is read from the notebooks when the pages are made, so nothing is written twice; where a question or
an answer cannot be understood without the cells beside it, the list has it in words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from chapters import notebooks, read_list, table, title, words
from pages import BookError

LIST = Path("book/on_a_phone.yml")
FIELDS = {"predict", "ask", "sentences", "answer"}
OWN = ("ask", "answer")  # in the words of the list
FOLDED = re.compile(r"<details><summary>\w+</summary>(.*?)</details>", re.DOTALL)


@dataclass(frozen=True)
class Short:
    """A chapter in short. The texts are Markdown, with links as seen from the folder `book`."""

    name: str
    title: str
    minutes: str
    opening: str
    questions: list[tuple[str, str]]
    summary: str


def chapters_in_short(root: Path) -> list[Short]:
    """Every chapter of the list, in its order. BookError where a chapter lacks what it needs."""
    books = notebooks(root)
    listed = table(read_list(root, LIST), LIST, "the file")
    return [in_short(name, entries, books) for name, entries in listed.items()]


def in_short(name: str, entries: Any, books: dict[str, Any]) -> Short:
    """One chapter. ``entries`` says which of its predictions to take."""
    heading = title(books, name, LIST)
    prose = [cell.source for cell in books[name].cells if cell.cell_type == "markdown"]
    if not isinstance(entries, list) or not entries:
        raise BookError(f"{LIST}: {name} must be a list of predictions, not {entries!r:.60}")
    time = found(r"\*\*Time\*\*: (\d+ minutes)", prose, f"{name} has no **Time**")
    summary = found(r"(?s)^## Summary\n(.*)\Z", prose, f"{name} has no ## Summary")
    paragraphs = prose[0].split("## ")[0].split("\n\n")
    opening = [text for text in paragraphs if not text.startswith(("# ", "<p")) and text.strip()]
    if not opening:
        raise BookError(f"{name}: the first cell must say what the chapter is about")
    questions = [question(one, name, prose) for one in entries]
    return Short(name, heading, time, from_book(opening[0]), questions, from_book(summary))


def found(pattern: str, prose: list[str], complaint: str) -> str:
    """The group of the one match in the cells of prose. BookError unless there is just one."""
    matches = [match for text in prose for match in re.findall(pattern, text, re.MULTILINE)]
    if len(matches) != 1:
        raise BookError(f"{complaint}, or more than one")
    return str(matches[0]).strip()


def question(entry: Any, name: str, prose: list[str]) -> tuple[str, str]:
    """A prediction and its answer: in the list's words where it has any, else in the chapter's."""
    fields = table(entry, LIST, f"a prediction of {name}")
    if "predict" not in fields or set(fields) - FIELDS or {"answer", "sentences"} <= set(fields):
        raise BookError(f"{LIST}: {name}: predict, ask, and one of answer and sentences may stand")
    piece = words(fields["predict"], LIST, f"predict of {name}")
    places = [(at, text) for at, cell in enumerate(prose) for text in paragraphs_with(piece, cell)]
    if len(places) != 1:
        raise BookError(f"{LIST}: {name} has {len(places)} predictions with {piece!r}, not one")
    [(at, asked)] = places
    own = {key: words(fields[key], LIST, f"{key} of {name}") for key in OWN if key in fields}
    if "answer" not in own:
        count = sentences(fields["sentences"], name) if "sentences" in fields else None
        answer = beginning(answer_after(asked, prose[at:]), count)
        own["answer"] = from_book(answer)
    return own.get("ask", from_book(asked)), own["answer"]


def sentences(count: Any, name: str) -> int:
    """How many sentences of an answer to take, if that is what the list says."""
    if type(count) is not int or count < 1:
        raise BookError(
            f"{LIST}: sentences of {name} must be a whole number from 1, not {count!r:.60}"
        )
    return count


def beginning(paragraph: str, count: int | None) -> str:
    """The first sentences of a paragraph; all of them for None."""
    parts = re.split(r"(?<=[.!?:)])\s+(?=[A-Z`*(\[])", one_line(paragraph))
    return " ".join(parts[:count])


def paragraphs_with(piece: str, cell: str) -> list[str]:
    """The paragraphs of a cell that ask for a prediction in which ``piece`` occurs, on one line."""
    asking = [text for text in cell.split("\n\n") if re.search(r"\*\*(Predict|Before)", text)]
    return [line for line in map(one_line, asking) if piece in line]


def answer_after(asked: str, cells: list[str]) -> str:
    """What is folded below the question, else the first paragraph of the next cell of prose."""
    below = cells[0].split(asked.split("**Predict**")[0] or "**Predict**")[-1]
    if folded := FOLDED.search(below):
        return folded[1].strip()
    paragraphs = cells[1].split("\n\n") if len(cells) > 1 else [""]
    if not paragraphs[0].strip() or paragraphs[0].startswith("#"):
        raise BookError(f"{LIST}: no answer follows {asked!r:.60}: give one")
    return paragraphs[0]


def one_line(text: str) -> str:
    """A paragraph without its line breaks."""
    return " ".join(text.split())


def from_book(text: str) -> str:
    """Markdown of a notebook with its links as seen from the folder of this page."""
    text = re.sub(r"\]\((?![a-z]+:|\.\./|#)", "](../notebooks/", text)
    return text.replace("](../book/", "](")


def markdown(short: Short) -> str:
    """The section of a chapter, without its heading."""
    link = f"../notebooks/{short.name}.ipynb"
    parts = [f"[{short.minutes} in full]({link})", short.opening]
    for asked, answer in short.questions:
        parts += [asked, "<details><summary>Answer</summary>", answer, "</details>"]
    return "\n\n".join([*parts, "**In short**", short.summary])


class ChaptersInShort(SphinxDirective):
    """Puts a section for each chapter of the list into the page."""

    def run(self) -> list[nodes.Node]:
        """The sections, made from the notebooks beside the page's folder."""
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / LIST))
        return [self.section(short) for short in chapters_in_short(root)]

    def section(self, short: Short) -> nodes.section:
        """One chapter's section."""
        self.env.note_dependency(f"{self.env.srcdir}/notebooks/{short.name}.ipynb")
        section = nodes.section("", nodes.title(short.title, short.title), ids=[short.name])
        section["names"].append(short.name)
        self.state.document.note_explicit_target(section, section)
        lines = StringList(markdown(short).splitlines(), source=LIST.as_posix())
        self.state.nested_parse(lines, self.content_offset, section)
        return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("chapters-in-short", ChaptersInShort)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
