"""A row of tokens shows every text as it is, and no text can break out of its box."""

from html.parser import HTMLParser

import pytest

from inside_generate.plots import token_strip
from inside_generate.plots.token_strip import visible
from inside_generate.tokens import Piece, pieces


class Page(HTMLParser):
    """The elements of a piece of HTML, with attributes and texts; all that opens must close."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.elements.append(element)
        self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        self.open[-1]["text"] += data

    def texts(self, tag):
        return [element["text"] for element in self.elements if element["tag"] == tag]


def page(*arguments, **settings) -> Page:
    return Page(token_strip(*arguments, **settings).html)


def test_each_token_is_one_box_with_its_text_and_its_id(tokenizer):
    found = pieces(tokenizer, "the soup is not")
    strip = page(found)
    assert strip.texts("bdi") == [one.text.replace(" ", "·") for one in found]
    assert strip.texts("small") == [str(one.token_id) for one in found]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert('soup')</script>",
        '"><img src=x onerror="alert(1)">',
        "</bdi></li></ol><style>*{display:none}</style>",
        "&lt;b&gt; &amp; '\"",
    ],
)
def test_a_text_is_never_html(text):
    strip = page([Piece(1, text, text, False), text])
    assert strip.texts("bdi") == [text.replace(" ", "·")] * 2
    assert {one["tag"] for one in strip.elements} <= {"div", "ol", "li", "bdi", "small", "p"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" lunch", "·lunch"),
        ("):\n", "):↵"),
        ("\t\r", "⇥U+000D"),
        ("今天🥢", "今天🥢"),
        ("مرحبا", "مرحبا"),
        ("\u202eabc\u2069", "U+202EabcU+2069"),
        ("\u00a0\u200b\x00", "U+00A0U+200BU+0000"),
    ],
)
def test_what_has_no_shape_of_its_own_is_made_visible(text, shown):
    assert visible(text) == shown


def test_boxes_stay_in_order_whatever_way_a_script_runs():
    strip = page(["مر", "حبا", "abc", "\u202e"])
    assert strip.texts("bdi") == ["مر", "حبا", "abc", "U+202E"]
    (row,) = (one for one in strip.elements if one["tag"] == "ol")
    assert "direction:ltr" in row["style"]


def test_a_reader_who_hears_the_row_hears_a_list_and_its_length():
    (row,) = (one for one in page(["a", "b"]).elements if one["tag"] == "ol")
    assert (row["role"], row["aria-label"]) == ("list", "2 tokens")
    (row,) = (one for one in page(["a"]).elements if one["tag"] == "ol")
    assert row["aria-label"] == "1 token"


def test_part_of_a_character_has_another_border_and_is_explained():
    strip = page([Piece(1, "a", "a", False), Piece(2, "ð", r"\xf0", True)])
    styles = [one["style"] for one in strip.elements if one["tag"] == "li"]
    assert ["dashed" in style for style in styles] == [False, True]
    assert "dashed box holds part of a character" in strip.texts("p")[0]


def test_only_signs_that_occur_are_explained():
    assert page(["a b\n"]).texts("p") == ["· is a space; ↵ is a new line"]
    assert page(["ab"]).texts("p") == []


def test_neighbours_differ_and_the_row_wraps():
    strip = page(["a", "b", "c"])
    first, second, third = (one["style"] for one in strip.elements if one["tag"] == "li")
    assert first == third != second
    assert "border:1px" in first
    assert any("flex-wrap:wrap" in one.get("style", "") for one in strip.elements)


def test_plain_strings_take_ids_that_are_given():
    assert page(["a", "b"], ids=[7, 8]).texts("small") == ["7", "8"]
    assert page(["a", "b"]).texts("small") == []
    with pytest.raises(ValueError, match="2 pieces need as many ids, not 3"):
        token_strip(["a", "b"], ids=[1, 2, 3])


def test_where_there_is_no_html_the_row_is_plain_text(tokenizer):
    strip = token_strip(["What", "'s", " for"])
    assert repr(strip) == "What | 's | ·for"
    assert strip._repr_html_() == strip.html
    assert repr(token_strip([])) == ""
    assert page([]).texts("bdi") == []


@pytest.mark.parametrize(
    "character",
    [
        "\ud800",
        "\ufffe",
        "\u0378",
        "\ufe0f",
        "\u034f",
        "\u17b4",
        "\u3164",
        "\u115f",
        "\uffa0",
        "\u2800",
    ],
    ids=ascii,
)
def test_what_is_blank_or_half_a_character_is_written_as_its_number(character):
    strip = token_strip([f"a{character}"])
    assert page([f"a{character}"]).texts("bdi") == [f"aU+{ord(character):04X}"]
    strip.html.encode()  # a page is a file


@pytest.mark.parametrize("bad", [b"a", None, 7])
def test_a_piece_that_is_no_text_is_named(bad):
    with pytest.raises(ValueError, match=f"a Piece or a string, not {bad!r}"):
        token_strip(["a", bad])


@pytest.mark.parametrize("bad", [1.7, True, "1", float("nan")])
def test_an_id_that_is_no_whole_number_is_named(bad):
    with pytest.raises(ValueError, match=f"an id must be a whole number, not {bad!r}"):
        token_strip(["a", "b"], ids=[1, bad])
