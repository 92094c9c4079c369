"""The glossary: every term that a page links to is there, in order, and leads back to a chapter."""

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
from myst_parser.mdit_to_docutils.base import default_slugify

from inside_generate import kv_cache_bytes, weight_bytes
from inside_generate.cache import head_dim, parameter_count
from inside_generate.reference import reference_config

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "book/glossary.md"
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted((ROOT / "book").glob("*.md"))
TERM = re.compile(r"^## (.+)\n\n((?:(?!^#).*\n)+)", flags=re.MULTILINE)
LINK = re.compile(r"\]\((?:\.\./book/)?glossary\.md#([^)\s]*)\)")
CHAPTER_LINK = re.compile(r"\[([^\]]+)\]\((\.\./notebooks/[^)#\s]+\.ipynb)\)")


@cache
def terms() -> dict[str, str]:
    """Each term's heading, with what stands under it."""
    return dict(TERM.findall(GLOSSARY.read_text("utf-8")))


@cache
def anchors() -> list[str]:
    """The anchor of each heading of the glossary, as the book makes it."""
    headings = re.findall(r"^#+ (.*)", GLOSSARY.read_text("utf-8"), flags=re.MULTILINE)
    return [default_slugify(title) for title in headings]


def text(path: Path) -> str:
    """The Markdown of a page or a notebook."""
    if path.suffix == ".md":
        return path.read_text("utf-8")
    cells = nbformat.read(path, 4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def unknown_terms(markdown: str) -> list[str]:
    return [anchor for anchor in LINK.findall(markdown) if anchor not in anchors()]


@pytest.mark.parametrize("path", [*CHAPTERS, *PAGES], ids=lambda path: path.stem)
def test_every_link_to_the_glossary_leads_to_a_term(path):
    assert unknown_terms(text(path)) == []


def test_a_link_to_a_term_that_is_not_there_is_found():
    assert unknown_terms("[*soup*](../book/glossary.md#soup), [x](glossary.md#kv-cache)") == [
        "soup"
    ]


def test_each_heading_of_the_glossary_is_a_term_with_an_explanation():
    headings = re.findall(r"^#+ .*", GLOSSARY.read_text("utf-8"), flags=re.MULTILINE)
    assert headings == ["# Glossary", *(f"## {title}" for title in terms())]


def test_each_term_is_linked_from_a_chapter():
    linked = {anchor for path in CHAPTERS for anchor in LINK.findall(text(path))}
    assert sorted(set(anchors()) - {"glossary"} - linked) == []


def test_no_two_terms_share_an_anchor():
    assert len(set(anchors())) == len(anchors())


def test_terms_stand_in_alphabetical_order():
    assert list(terms()) == sorted(terms(), key=str.casefold)


def test_each_term_leads_to_a_chapter_under_its_title():
    titles = {f"../notebooks/{path.name}": text(path).splitlines()[0] for path in CHAPTERS}
    for term, explained in terms().items():
        (link,) = CHAPTER_LINK.findall(explained)
        named, target = link
        assert titles.get(target) == f"# {named}", term


def test_the_glossarys_figures_are_the_references():
    config = reference_config()
    facts = {
        "Vocabulary": f"{config.vocab_size:,}",
        "Config": f"{config.num_hidden_layers} layers, hidden size {config.hidden_size}",
        "Head": f"{config.num_attention_heads} query heads and {config.num_key_value_heads} KV",
        "Head size": f"= {head_dim(config)}",
        "KV cache": f"{kv_cache_bytes(config, 1):,} bytes a token",
        "Parameter": f"{parameter_count(config):,}",
        "Embedding": f"[V, {config.hidden_size}]",
        "Weights": f"{weight_bytes(config) / 1e6:.0f} MB",
    }
    assert [term for term, fact in facts.items() if fact not in terms()[term]] == []
    assert f"{config.vocab_size * config.hidden_size:,}" in terms()["Parameter"]
