"""What one id stands for: its bytes, and what a reader can see of them.

Byte-level tokenizers (Qwen2's, SmolLM2's, all that follow GPT-2) build their tokens from the bytes
of UTF-8. A token may therefore hold only a part of a character, and this module says when it does.
It leaves conversations to ``chat.py`` and drawing to ``plots/token_strip.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from inside_generate.guards import check_text, whole_number


@dataclass(frozen=True)
class Piece:
    """One token of a text."""

    token_id: int
    internal: str  # as the tokenizer's own list has it: one printable character for each byte
    text: str  # what a user reads; the bytes of an unfinished character as \xNN
    partial: bool  # whether it begins or ends inside a character


@dataclass(frozen=True)
class Spelling:
    """What one id is written as, ready for JSON."""

    token_id: int
    utf8: str  # its bytes, in hexadecimal digits
    control: bool  # whether it steers the conversation and is left out of the answer's text


def spellings(
    tokenizer: PreTrainedTokenizerBase, token_ids: Iterable[int]
) -> tuple[Spelling, ...] | None:
    """Return the spelling of each id; ``None`` where the tokenizer does not build on bytes.

    An id of the model's that the tokenizer has no token for is spelled with no bytes.
    """
    added = tokenizer.added_tokens_decoder
    found = []
    for token_id in token_ids:
        known = tokenizer.convert_ids_to_tokens(token_id) is not None
        try:
            raw = token_bytes(tokenizer, token_id) if known else b""
        except ValueError:
            return None
        control = token_id in added and added[token_id].special
        found.append(Spelling(token_id, raw.hex(), control))
    return tuple(found)


def byte_characters() -> dict[str, int]:
    r"""Return the 256 characters in which byte-level tokenizers write bytes, each with its byte.

    A byte that is a visible character in Latin-1 is written as that character. The others, such as
    space and new line, take the characters from U+0100 on, in order (GPT-2's ``encoder.py``).
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    others = {chr(0x100 + number): byte for number, byte in enumerate(hidden)}
    return {chr(byte): byte for byte in visible} | others


def pieces(tokenizer: PreTrainedTokenizerBase, text: str) -> list[Piece]:
    """Return the tokens of ``text``; nothing is added to it, and a control token counts as one."""
    check_text("the text to be tokenized", text)
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return [piece(tokenizer, token_id) for token_id in ids]


def piece(tokenizer: PreTrainedTokenizerBase, token_id: int) -> Piece:
    """Return what is to be seen of one id."""
    token_id = whole_number("token_id", token_id)
    raw = token_bytes(tokenizer, token_id)
    text = raw.decode("utf-8", errors="backslashreplace")
    internal = tokenizer.convert_ids_to_tokens(token_id)
    return Piece(token_id, internal, text, partial=text.encode() != raw)


def token_bytes(tokenizer: PreTrainedTokenizerBase, token_id: int) -> bytes:
    """Return the bytes of UTF-8 that one id stands for.

    ``ValueError`` for an id without a token, and for a tokenizer that is not byte-level.
    """
    token_id = whole_number("token_id", token_id)
    known = 0 <= token_id < len(tokenizer)
    internal = tokenizer.convert_ids_to_tokens(token_id) if known else None
    if internal is None:
        raise ValueError(f"no token has the id {token_id}")
    if token_id in tokenizer.added_tokens_decoder:
        return internal.encode()  # matched as it is written, not built from bytes
    if foreign := [character for character in internal if character not in _BYTE_OF]:
        raise ValueError(f"{internal!r} holds {foreign[0]!r}: this tokenizer is not byte-level")
    return bytes(_BYTE_OF[character] for character in internal)


_BYTE_OF = byte_characters()
