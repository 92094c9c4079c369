"""Text that is shown while it is made: nothing is taken back, and together it is the text."""

import random

import pytest
import torch
from tests.contents import ORDINARY
from tests.tiny import tiny_tokenizer
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from inside_generate import encode, stream
from inside_generate.chat import decode_text
from inside_generate.streaming import text_pieces

TEXTS = [
    *ORDINARY,
    "今天午饭吃什么? 面条 🍜!",
    "e\u0301 and o\u0308, combined",
    "a family 👨‍👩‍👧‍👦, a flag 🇺🇳, a hand 👋🏽",
    "a real replacement \ufffd in the middle",
    "and one at the end \ufffd",
    "\ufffd\ufffd",
    "",
]
CONTROLS = "<|im_start|>", "<|im_end|>", "<tool_call>"


def byte_level():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.normalizer = None
    return tokenizer


def sentence_piece():
    """A tokenizer as SentencePiece makes them: ▁ for a space, bytes for what has no token."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    known = ["<unk>", "</s>", *bytes_, *"▁abcdefghijklmnopqrstuvwxyz,.?!今天"]
    backend = Tokenizer(
        models.BPE({token: index for index, token in enumerate(known)}, [], byte_fallback=True)
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", unk_token="<unk>")


def sentence_piece_ids(tokenizer, text):
    return tokenizer("▁" + text.replace(" ", "▁"), add_special_tokens=False)["input_ids"]


def check(tokenizer, ids, **settings):
    """Assert what makes pieces right, and return them."""
    pieces = list(text_pieces(tokenizer, ids, **settings))
    text = decode_text(tokenizer, ids, **settings)
    assert "".join(pieces) == text
    assert "" not in pieces
    assert sum(piece.count("\ufffd") for piece in pieces) == text.count("\ufffd")
    return pieces


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_pieces_of_a_text_join_to_it(text):
    tokenizer = byte_level()
    assert "".join(check(tokenizer, tokenizer(text)["input_ids"])) == text


@pytest.mark.parametrize("text", [x for x in TEXTS if len(x) < 500], ids=ascii)
def test_pieces_join_where_a_tokenizer_falls_back_to_bytes(text):
    tokenizer = sentence_piece()
    assert "".join(check(tokenizer, sentence_piece_ids(tokenizer, text))) == text


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_pieces_join_to_the_final_text_for_any_ids(make, skip):
    """Halves of characters, control tokens between them and rows without a token included."""
    tokenizer, chance = make(), random.Random(0)
    for _ in range(300):
        ids = [chance.randrange(len(tokenizer) + 2) for _ in range(chance.randrange(20))]
        check(tokenizer, ids, skip_special_tokens=skip)


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_pieces_join_where_bytes_of_characters_are_cut_anywhere(make):
    tokenizer, chance = make(), random.Random(1)
    names = {byte: f"<0x{byte:02X}>" for byte in range(256)}
    if make is byte_level:
        names = {byte: tokenizer.tokenize(chr(byte))[0] for byte in range(128)} | {
            byte: token
            for sign in ("今", "🥢", "é", "\ufffd")
            for byte, token in zip(sign.encode(), tokenizer.tokenize(sign), strict=True)
        }
    ids_of = {byte: tokenizer.convert_tokens_to_ids(name) for byte, name in names.items()}
    raw = "今🥢é\ufffd!".encode()
    for _ in range(200):
        start, end = sorted(chance.choices(range(len(raw) + 1), k=2))
        check(tokenizer, [ids_of[byte] for byte in raw[start:end] + raw[: chance.randrange(9)]])


def test_a_character_is_shown_when_its_last_id_has_come_and_not_before():
    tokenizer = byte_level()
    ids = tokenizer("🥢")["input_ids"]
    assert len(ids) == 4
    assert [list(text_pieces(tokenizer, ids[:n])) for n in (3, 4)] == [["\ufffd"], ["🥢"]]
    later = iter([*ids, *tokenizer("a")["input_ids"]])
    pieces = text_pieces(tokenizer, later)
    assert next(pieces) == "🥢"
    assert len(list(later)) == 1, "it waited for no more ids than it needed"


def test_an_unfinished_character_is_given_at_the_end():
    tokenizer = byte_level()
    ids = tokenizer("a 🥢")["input_ids"][:-1]
    assert list(text_pieces(tokenizer, ids))[-1] == "\ufffd"
    assert decode_text(tokenizer, ids) == "a \ufffd"


def test_each_ids_own_text_would_show_what_is_not_in_the_answer():
    """Why pieces are needed."""
    tokenizer = byte_level()
    ids = tokenizer("今天 🥢")["input_ids"]
    assert "\ufffd" in "".join(decode_text(tokenizer, [index]) for index in ids)
    assert "\ufffd" not in "".join(text_pieces(tokenizer, ids))


@pytest.mark.parametrize("control", CONTROLS)
def test_control_tokens_are_left_out_or_kept_as_in_the_final_text(control):
    tokenizer = byte_level()
    ids = tokenizer(f"今{control}天")["input_ids"]
    kept = check(tokenizer, ids, skip_special_tokens=False)
    assert control in kept
    special = control.startswith("<|")  # the others are matched as a whole, and shown
    assert "".join(check(tokenizer, ids)) == ("今天" if special else f"今{control}天")


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_a_control_token_between_two_bytes_of_a_character_does_not_part_them(make):
    tokenizer = make()
    today = tokenizer("🥢", add_special_tokens=False)["input_ids"]
    assert len(today) == 4
    for control in (tokenizer.eos_token_id, len(tokenizer) + 1):
        for cut in range(1, 4):
            ids = [*today, *today[:cut], control, *today[cut:], control, *today[:2]]
            check(tokenizer, ids)
    ids = [*today[:2], tokenizer.eos_token_id, *today[2:]]
    assert check(tokenizer, ids) == ["🥢"]


def test_plain_text_comes_one_piece_an_id():
    tokenizer = byte_level()
    ids = tokenizer("Today the bread is warm.")["input_ids"]
    assert list(text_pieces(tokenizer, ids)) == [decode_text(tokenizer, [x]) for x in ids]


def test_ids_may_be_a_tensor_and_no_ids_are_no_pieces():
    tokenizer = byte_level()
    ids = tokenizer("the soup", return_tensors="pt")["input_ids"][0]
    assert "".join(text_pieces(tokenizer, ids)) == "the soup"
    assert list(text_pieces(tokenizer, torch.tensor([], dtype=torch.long))) == []


@pytest.mark.parametrize("wrong", [1.5, "a", None, True])
def test_what_is_no_id_is_named(wrong):
    with pytest.raises(ValueError, match=f"token_id must be a whole number, not {wrong!r}"):
        list(text_pieces(byte_level(), [wrong]))


@pytest.mark.parametrize("wrong", [-1, 2**32, 10**30])
def test_an_id_that_no_token_can_have_is_named(wrong):
    with pytest.raises(ValueError, match=f"no token has the id {wrong}"):
        list(text_pieces(byte_level(), [wrong]))


def test_an_answer_is_shown_while_the_loop_makes_it(model, tokenizer, forwards):
    calls = forwards(model)
    steps = stream(model, tokenizer, encode(tokenizer, "soup"), max_new_tokens=9, eos_token_ids=[])
    ids = []
    pieces = text_pieces(tokenizer, (ids.append(step.token_id) or step.token_id for step in steps))
    first = next(pieces)
    assert len(calls) < 9
    assert first + "".join(pieces) == decode_text(tokenizer, ids)


def test_a_tokenizer_that_takes_text_back_is_refused():
    backend = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", "X")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    with pytest.raises(ValueError, match="changes text that it has given already, 'a'"):
        list(text_pieces(tokenizer, [0, 1]))
