"""Text while it is being made: pieces that can be shown at once and never have to be taken back.

It knows when the text of the ids so far is final and when it may still change. It leaves the ids to
``loop.py`` and the text of a finished answer to ``chat.decode_text``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from transformers import PreTrainedTokenizerBase

from inside_generate.chat import check_id, decode_text
from inside_generate.guards import whole_number

UNREADABLE = "\ufffd"  # what bytes that are no character, or not yet one, are decoded to
BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")  # how SentencePiece spells a byte without a token


def text_pieces(
    tokenizer: PreTrainedTokenizerBase,
    token_ids: Iterable[int],
    *,
    skip_special_tokens: bool = True,
) -> Iterator[str]:
    """Yield the text of an answer piece by piece, each as soon as no later id can change it.

    The pieces joined are ``decode_text`` of all ids, exactly. What ends in an unfinished character
    is held back, and comes when the character is whole or the ids end. Every id decodes the text
    so far anew: an answer is short beside the work of making it.
    """
    silent = _silent_ids(tokenizer) if skip_special_tokens else set()
    ids: list[int] = []
    shown = ""
    for token_id in token_ids:
        ids.append(check_id(whole_number("token_id", token_id)))
        token = tokenizer.convert_ids_to_tokens(ids[-1])
        if token is None or ids[-1] in silent or BYTE_TOKEN.fullmatch(token):
            continue  # it ends no run of bytes, and those are decoded as a whole
        text = decode_text(tokenizer, ids, skip_special_tokens=skip_special_tokens)
        settled = text.rstrip(UNREADABLE)
        yield from _beyond(shown, settled)
        shown = settled
    yield from _beyond(shown, decode_text(tokenizer, ids, skip_special_tokens=skip_special_tokens))


def _silent_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids that are left out of the text before the others are decoded."""
    added = tokenizer.added_tokens_decoder.items()
    return {token_id for token_id, token in added if token.special}


def _beyond(shown: str, text: str) -> Iterator[str]:
    """Yield what ``text`` has beyond ``shown``, if anything."""
    if not text.startswith(shown):
        raise ValueError(
            f"this tokenizer changes text that it has given already, {shown!r}: "
            "decode the whole answer at its end"
        )
    if len(text) > len(shown):
        yield text[len(shown) :]
