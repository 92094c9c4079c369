"""What an id stands for: bytes that add up to the text, and characters cut where tokens are."""

import numpy as np
import pytest
import torch
from tests.contents import ORDINARY
from tokenizers import pre_tokenizers, processors

from inside_generate.chat import render_chat
from inside_generate.tokens import byte_characters, piece, pieces, token_bytes


def test_the_byte_characters_are_the_librarys():
    found = byte_characters()
    assert set(found) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(found.values()) == list(range(256))


def test_each_byte_is_written_as_the_library_writes_it():
    found = {byte: character for character, byte in byte_characters().items()}
    library = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "a b\n\t\x00\x7f\u00a0\u00ad é今🥢"
    ((written, _),) = library.pre_tokenize_str(text)
    assert written == "".join(found[byte] for byte in text.encode())


@pytest.mark.parametrize("text", ORDINARY, ids=ascii)
def test_the_bytes_of_the_pieces_are_the_bytes_of_the_text(tokenizer, text):
    found = pieces(tokenizer, text)
    raw = b"".join(token_bytes(tokenizer, one.token_id) for one in found)
    assert raw.decode() == tokenizer.backend_tokenizer.normalizer.normalize_str(text)
    assert [one.token_id for one in found] == tokenizer(text)["input_ids"]


def test_a_piece_has_its_id_its_internal_form_and_its_text(tokenizer):
    first, second = pieces(tokenizer, "a the")[:2]
    assert (first.internal, first.text, first.partial) == ("a", "a", False)
    assert second.internal[0] == "Ġ"
    assert second.text == second.internal.replace("Ġ", " ")
    assert tokenizer.convert_ids_to_tokens(second.token_id) == second.internal


def test_part_of_a_character_is_shown_as_its_bytes(tokenizer):
    found = pieces(tokenizer, "a🥢")
    assert [one.text for one in found] == ["a", r"\xf0", r"\x9f", r"\xa5", r"\xa2"]
    assert [one.partial for one in found] == [False, True, True, True, True]


def test_bytes_that_are_spelled_in_a_text_are_no_part_of_a_character(tokenizer):
    found = pieces(tokenizer, r"\xf0 and the replacement �")
    assert "".join(one.text for one in found if not one.partial).startswith(r"\xf0 and")
    assert [one.text for one in found if one.partial] == [r"\xef", r"\xbf", r"\xbd"]


def test_a_control_token_is_one_piece_as_it_is_written(tokenizer):
    found = pieces(tokenizer, render_chat(tokenizer, "soup"))
    assert found[0].text == found[0].internal == "<|im_start|>"
    assert not found[0].partial


def test_a_control_token_may_be_written_in_any_characters(tokenizer):
    tokenizer.add_special_tokens({"extra_special_tokens": ["<｜soup 停｜>"]})
    (found,) = pieces(tokenizer, "<｜soup 停｜>")
    assert (found.text, found.partial) == ("<｜soup 停｜>", False)


def test_nothing_is_added_to_the_text(tokenizer):
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", start)]
    )
    assert tokenizer("soup")["input_ids"][0] == start
    assert pieces(tokenizer, "soup")[0].token_id != start


@pytest.mark.parametrize("token_id", [-1, 326, 10**9])
def test_an_id_without_a_token_is_named(tokenizer, token_id):
    assert len(tokenizer) <= 326
    with pytest.raises(ValueError, match=f"no token has the id {token_id}"):
        piece(tokenizer, token_id)


@pytest.mark.parametrize("text", [None, 7, b"soup", ["soup"]])
def test_what_is_no_text_is_named(tokenizer, text):
    with pytest.raises(ValueError, match="must be a string, not"):
        pieces(tokenizer, text)


def test_half_a_character_is_refused(tokenizer):
    with pytest.raises(ValueError, match="half of a character"):
        pieces(tokenizer, "\ud83e")


def test_a_tokenizer_that_is_not_byte_level_is_named(tokenizer):
    tokenizer.convert_ids_to_tokens = lambda token_id: "▁soup"
    with pytest.raises(ValueError, match="'▁soup' holds '▁': this tokenizer is not byte-level"):
        piece(tokenizer, 0)


def test_an_id_may_be_numpys_or_a_tensors(tokenizer):
    for token_id in (np.int64(3), torch.tensor(3)):
        found = piece(tokenizer, token_id)
        assert found == piece(tokenizer, 3)
        assert type(found.token_id) is int
        assert token_bytes(tokenizer, token_id) == token_bytes(tokenizer, 3)


@pytest.mark.parametrize("token_id", [1.0, "a", True, None, [1]])
def test_an_id_that_is_no_whole_number_is_named(tokenizer, token_id):
    for call in (piece, token_bytes):
        with pytest.raises(ValueError, match="token_id must be a whole number, not"):
            call(tokenizer, token_id)
