"""The tokens of a text as a row of boxes, in plain HTML.

HTML and not a drawing, so that the reader's own fonts show every script and the row wraps on a
narrow screen. The text comes from anyone: it is escaped, and it cannot reorder the boxes.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from inside_generate.guards import whole_number
from inside_generate.tokens import Piece

SHOWN = {" ": "·", "\n": "↵", "\t": "⇥"}
NAMES = {" ": "a space", "\n": "a new line", "\t": "a tab"}

# Fillers, vowels and an empty Braille cell that are letters by name; joiners, variation selectors.
BLANK = re.compile(
    "[\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)

# The prompt's blue in two strengths, for neighbours; it lets a light and a dark page through.
TINTS = ("rgba(0, 114, 178, 0.10)", "rgba(0, 114, 178, 0.26)")

ROW = (
    "display:flex; flex-wrap:wrap; gap:0.35em 0.2em; list-style:none; margin:0.4em 0; padding:0; "
    "direction:ltr; color:inherit; line-height:1.35"
)
BOX = (
    "display:flex; flex-direction:column; align-items:center; box-sizing:border-box; "
    "max-width:100%; margin:0; padding:0.1em 0.35em; border-radius:0.25em; color:inherit"
)
WORDS = "white-space:pre-wrap; overflow-wrap:anywhere"
SMALL = "font-size:0.78em; margin:0; color:inherit"


@dataclass(frozen=True, repr=False)
class TokenStrip:
    """A row of tokens: HTML for a page, plain text where there is none."""

    html: str
    plain: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.plain


def token_strip(pieces: Sequence[Piece | str], *, ids: Sequence[int] | None = None) -> TokenStrip:
    """Return the pieces as boxes, each with its id below it.

    ``pieces`` is what ``tokens.pieces`` returns, or plain strings. ``ids`` stands for the ids that
    plain strings do not have.
    """
    pieces = list(pieces)
    for one in pieces:
        if not isinstance(one, (Piece, str)):
            raise ValueError(f"a piece is a Piece or a string, not {one!r}")
    if ids is not None and len(ids) != len(pieces):
        raise ValueError(f"{len(pieces)} pieces need as many ids, not {len(ids)}")
    texts = [one.text if isinstance(one, Piece) else one for one in pieces]
    own = [one.token_id if isinstance(one, Piece) else None for one in pieces]
    partial = [isinstance(one, Piece) and one.partial for one in pieces]
    boxes = "".join(map(_box, range(len(texts)), texts, own if ids is None else ids, partial))
    row = f'<ol role="list" aria-label="{_count(len(texts))}" style="{ROW}">{boxes}</ol>'
    key = _key("".join(texts), any(partial))
    return TokenStrip(f"<div>{row}{key}</div>", " | ".join(map(visible, texts)))


def visible(text: str) -> str:
    """Return the text with a sign for each character that has no shape of its own."""
    return "".join(SHOWN.get(character) or _shape(character) for character in text)


def _shape(character: str) -> str:
    """Return the character, or its code point where it would show nothing or turn its neighbours.

    Unicode's control and format characters and separators, those that are private, unassigned or
    half a pair, and some letters and marks that are blank.
    """
    shapeless = unicodedata.category(character)[0] in "CZ" or bool(BLANK.match(character))
    return f"U+{ord(character):04X}" if shapeless else character


def _box(number: int, text: str, token_id: int | None, partial: bool) -> str:
    border = f"border:1px {'dashed' if partial else 'solid'} currentColor"
    style = f"{BOX}; {border}; background:{TINTS[number % len(TINTS)]}"
    words = f'<bdi style="{WORDS}">{html.escape(visible(text))}</bdi>'
    below = (
        ""
        if token_id is None
        else f'<small style="{SMALL}">{whole_number("an id", token_id)}</small>'
    )
    return f'<li style="{style}">{words}{below}</li>'


def _key(text: str, any_partial: bool) -> str:
    """Return a line that explains the signs which occur."""
    signs = [f"{SHOWN[character]} is {name}" for character, name in NAMES.items()]
    used = [sign for sign, character in zip(signs, NAMES, strict=True) if character in text]
    if any_partial:
        used.append(r"a dashed box holds part of a character, its bytes written \xNN")
    return f'<p style="{SMALL}">{"; ".join(used)}</p>' if used else ""


def _count(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens} tokens"
