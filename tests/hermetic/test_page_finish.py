"""What is mended in a page's HTML, and what its head says of it."""

import struct
from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document

import card
import for_everybody
import page_head


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("<p>Say 你好。 Then</p>", '<p>Say <span lang="zh">你好。</span> Then</p>'),
        ("<p>レストラン</p>", '<p><span lang="ja">レストラン</span></p>'),
        ('<img alt="a > 你好">', '<img alt="a > 你好">'),
        ("<svg><text>你好</text></svg>", "<svg><text>你好</text></svg>"),
        ('<script>let a = "<你好"</script>', '<script>let a = "<你好"</script>'),
        ("<!-- 你好 --><p>1 < 2，</p>", "<!-- 你好 --><p>1 < 2，</p>"),
        ("<p>plain</p>", "<p>plain</p>"),
    ],
)
def test_passages_in_other_scripts_are_marked_and_markup_is_left_alone(body, marked):
    assert for_everybody.with_languages(body) == marked


def test_a_numbered_figure_gets_a_link_to_its_file_at_the_end_of_its_caption():
    figure = (
        '<figure><img alt="{0}" src="a.svg" />\n<figcaption>\n<p><span class="caption-number">'
        'Fig. {0} </span><span class="caption-text">Up.</span>{1}<a class="headerlink" href="#f">'
    )
    link = ' <a class="enlarge" href="a.svg">Enlarge Fig. {}</a>'
    body = "".join(figure.format(number, "") for number in (1, 2)) + '<img src="b.svg">'
    linked = "".join(figure.format(number, link.format(number)) for number in (1, 2))
    assert for_everybody.with_large_figures(body) == linked + '<img src="b.svg">'


def mended(body: str) -> str:
    context = {"body": body}
    for_everybody.mend(None, "", "", context, None)
    return context["body"]


def test_a_summary_is_named_by_its_words():
    assert mended('<summary aria-label="Toggle hidden content">') == "<summary>"


def test_a_reference_is_an_item_of_its_list():
    assert mended('<div role="doc-biblioentry">') == '<div role="listitem">'


def test_an_empty_corner_of_a_table_heads_nothing():
    assert mended('<th class="head"><p></p></th>') == "<td></td>"


def document(*paragraphs: str) -> nodes.document:
    made = new_document("page")
    made += [nodes.paragraph(text=text) for text in paragraphs]
    return made


def test_a_description_is_the_first_paragraph_cut_at_a_word():
    assert (
        page_head.description(document("Short,\nof two lines.", "Next.")) == "Short, of two lines."
    )
    long = page_head.description(document("word " * 100))
    assert long.endswith("word …")
    assert len(long) <= page_head.LONGEST + 2
    assert page_head.description(None) == page_head.description(document()) == ""


def test_the_head_holds_no_markup_from_the_text():
    made = page_head.tags('A "title" <b>', 'about & "more"', "", "one.html")
    assert 'content="A &quot;title&quot; &lt;b&gt;"' in made
    assert "og:image" not in made
    assert "og:url" not in made


def test_the_card_has_the_size_that_it_says():
    head = card.CARD.read_bytes()[:24]
    assert struct.unpack(">II", head[16:]) == (card.WIDTH, card.HEIGHT)
    tags = page_head.tags("t", "", "https://example.org/", "one.html")
    assert f'content="{card.WIDTH}"' in tags
    assert f'content="{card.HEIGHT}"' in tags
    assert Path(page_head.CARD).name == card.CARD.name


def test_the_card_shows_the_books_name_and_every_column():
    [axes] = card.draw().axes
    assert "Inside generate()" in [text.get_text() for text in axes.texts]
    assert len(axes.patches) == 2 * (card.PROMPT + card.STEPS)
