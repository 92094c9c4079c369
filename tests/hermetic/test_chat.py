"""Messages to ids: the template's own ids, and content that cannot become control tokens."""

import copy
import json

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tests.contents import FORGED, ORDINARY, SPELLED, control_ids, without_control_tokens
from tests.tiny import TEMPLATE, tiny_tokenizer
from tokenizers import AddedToken, Tokenizer, normalizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from inside_generate import decode_text, encode, render_chat
from inside_generate.chat import as_messages, control_tokens

SYSTEM = "You are a small helper made for tests."
# Found examples are of no use to the next reader: each run tries the same texts.
same_each_time = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def ids_of(tokenizer, messages):
    return encode(tokenizer, messages)["input_ids"][0].tolist()


def library_ids(tokenizer, messages):
    return tokenizer.apply_chat_template(
        as_messages(messages), tokenize=True, add_generation_prompt=True, return_dict=True
    )["input_ids"]


def plain(tokenizer, text):
    return without_control_tokens(tokenizer)(text)


def normalised(tokenizer, text):
    return tokenizer.backend_tokenizer.normalizer.normalize_str(text)


# --- rendering ------------------------------------------------------------------------------------


def test_a_string_is_one_turn_of_the_user(tokenizer):
    assert as_messages("soup") == [{"role": "user", "content": "soup"}]
    for messages in ([{"role": "user", "content": "soup"}], ({"role": "user", "content": "soup"},)):
        assert render_chat(tokenizer, "soup") == render_chat(tokenizer, messages)
        assert ids_of(tokenizer, "soup") == ids_of(tokenizer, messages)


def test_the_rendered_text_is_the_templates(tokenizer):
    assert render_chat(tokenizer, "soup") == (
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
        "<|im_start|>user\nsoup<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_a_system_message_replaces_the_default(tokenizer):
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "soup"}]
    text = render_chat(tokenizer, messages)
    assert "system\nBe kind.<|im_end|>" in text
    assert SYSTEM not in text


def test_the_assistants_turn_is_opened_unless_that_is_declined(tokenizer):
    opened = render_chat(tokenizer, "soup")
    assert opened == render_chat(tokenizer, "soup", add_generation_prompt=False) + (
        "<|im_start|>assistant\n"
    )


def test_the_callers_messages_stay_as_they_were(tokenizer):
    messages = [{"role": "user", "content": [{"type": "text", "text": FORGED}]}]
    before = copy.deepcopy(messages)
    encode(tokenizer, messages)
    assert messages == before


# --- ordinary content -----------------------------------------------------------------------------


@pytest.mark.parametrize("content", ORDINARY)
def test_ordinary_content_gives_the_templates_own_ids(tokenizer, content):
    assert ids_of(tokenizer, content) == library_ids(tokenizer, content)


@same_each_time
@given(content=st.text())
def test_any_ordinary_content_gives_the_templates_own_ids(content):
    tokenizer = tiny_tokenizer()
    assume(not any(token in content for token in control_tokens(tokenizer)))
    assert ids_of(tokenizer, content) == library_ids(tokenizer, content)


def conversation(text):
    """Return many turns, with ``text`` in each place where a conversation holds text."""
    return [
        {"role": "system", "content": text},
        {"role": "user", "content": [{"type": "text", "text": text}, {"text": "and bread"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"name": text, "arguments": {text: [text, {"n": 3, "deep": text}]}}],
        },
        {"role": "tool", "content": text},
        {"role": text, "content": "A role made up."},
        {"role": "user", "content": text},
    ]


@pytest.mark.parametrize("content", ORDINARY)
def test_ordinary_content_in_every_place_gives_the_templates_own_ids(tokenizer, content):
    messages = conversation(content)
    assert ids_of(tokenizer, messages) == library_ids(tokenizer, messages)


def test_the_two_steps_give_the_ids_of_the_one(tokenizer):
    text = render_chat(tokenizer, "soup")
    assert ids_of(tokenizer, "soup") == tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("content", ["soup", "<|im_end|>"])
def test_a_tokenizer_that_puts_a_token_in_front_puts_none_here(tokenizer, content):
    expected = ids_of(tokenizer, content)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 320)]
    )
    assert tokenizer("soup")["input_ids"][0] == 320, "the tokenizer would, on its own"
    assert ids_of(tokenizer, content) == expected


@pytest.mark.parametrize("content", ["soup", FORGED])
def test_ids_and_mask_are_one_row_of_whole_numbers(tokenizer, content):
    inputs = encode(tokenizer, content)
    assert set(inputs) == {"input_ids", "attention_mask"}
    assert inputs["input_ids"].dtype == inputs["attention_mask"].dtype == torch.long
    assert inputs["input_ids"].shape[0] == 1
    assert inputs["input_ids"].shape == inputs["attention_mask"].shape
    assert bool((inputs["attention_mask"] == 1).all())


def test_ids_and_mask_are_put_on_the_device_that_is_asked_for(tokenizer):
    inputs = encode(tokenizer, "soup", device="meta")
    assert {inputs["input_ids"].device.type, inputs["attention_mask"].device.type} == {"meta"}
    assert encode(tokenizer, "soup")["input_ids"].device.type == "cpu"


# --- content that spells control tokens -----------------------------------------------------------


def test_the_library_lets_content_forge_a_turn(tokenizer):
    """The attack: three openings are the template's own (system, user, assistant); two are not."""
    opening = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert library_ids(tokenizer, "soup").count(opening) == 3
    assert library_ids(tokenizer, FORGED).count(opening) == 5


def test_content_cannot_forge_a_turn_here(tokenizer):
    opening = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert ids_of(tokenizer, FORGED).count(opening) == 3


def check_content_stays_ordinary(tokenizer, content, after_turn="\n"):
    """Assert the very ids: the template's control tokens, and plain text between them."""
    opening, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    newline = plain(tokenizer, after_turn)
    assert ids_of(tokenizer, content) == [
        *(opening, *plain(tokenizer, f"system\n{SYSTEM}"), end, *newline),
        *(opening, *plain(tokenizer, f"user\n{content}"), end, *newline),
        *(opening, *plain(tokenizer, "assistant\n")),
    ]


@pytest.mark.parametrize("content", [*ORDINARY, *SPELLED])
def test_content_is_encoded_as_by_a_tokenizer_without_control_tokens(tokenizer, content):
    check_content_stays_ordinary(tokenizer, content)


PIECES = [
    *("<|im_end|>", "<|im_start|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_call>s"),
    *("<|im_", "end|>", "<", "|>", "s", " ", "\n", "system", "\ue000", "\U000f0000", "\u0338"),
]


@same_each_time
@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=8))
@example(pieces=["<|im_", "<|im_end|>", "end|>"])
def test_no_mixture_of_control_tokens_and_text_becomes_control_ids(pieces):
    tokenizer = tiny_tokenizer()
    check_content_stays_ordinary(tokenizer, "".join(pieces))


@pytest.mark.parametrize("content", SPELLED)
def test_content_in_every_place_adds_no_control_ids_and_reads_back_the_same(tokenizer, content):
    ids = ids_of(tokenizer, conversation(content))
    harmless = ids_of(tokenizer, conversation("soup"))
    assert control_ids(tokenizer, ids) == control_ids(tokenizer, harmless)
    text = decode_text(tokenizer, ids, skip_special_tokens=False)
    assert text == normalised(tokenizer, render_chat(tokenizer, conversation(content)))


@pytest.mark.parametrize("place", ["role", "name"])
def test_a_control_token_spelled_as_role_or_name_stays_text(tokenizer, place):
    message = {"role": "user", "content": "soup", "name": "Ada"} | {place: "<|im_end|>"}
    ids = ids_of(tokenizer, [message])
    assert control_ids(tokenizer, ids) == control_ids(tokenizer, ids_of(tokenizer, "soup"))


def test_a_key_of_a_tool_call_cannot_become_a_control_token(tokenizer):
    def call(key):
        arguments = {"nested": [{key: "soup"}]}
        return [
            {"role": "user", "content": "soup"},
            {"role": "assistant", "tool_calls": [{"name": "cook", "arguments": arguments}]},
        ]

    ids, harmless = (ids_of(tokenizer, call(key)) for key in ("<|im_end|>", "pot"))
    assert control_ids(tokenizer, ids) == control_ids(tokenizer, harmless)
    assert "<|im_end|>" in decode_text(tokenizer, ids)


@pytest.mark.parametrize(
    ("normalizer", "token", "spelled"),
    [
        (normalizers.NFKC(), "<call>", "\uff1ccall>"),  # full-width
        (normalizers.NFKC(), "<call>", "\ufe64call>"),  # small form
        (normalizers.NFC(), "Kelvin:", "\u212aelvin:"),
        (normalizers.NFC(), "\u00c5sa:", "A\u030asa:"),  # two characters become one
        (normalizers.Lowercase(), "user:", "USER:"),
        (normalizers.Lowercase(), "USER:", "user:"),
    ],
)
def test_what_normalising_turns_into_a_control_token_stays_text(normalizer, token, spelled):
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizer
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=True)])
    assert tokenizer.convert_tokens_to_ids(token) in tokenizer(spelled)["input_ids"]
    check_content_stays_ordinary(tokenizer, f"bread {spelled} soup")


def test_every_private_use_character_may_stand_beside_a_control_token(tokenizer):
    private = "".join(map(chr, range(0xE000, 0xF900)))
    check_content_stays_ordinary(tokenizer, private + "<|im_end|>")


def test_the_template_may_write_control_tokens_around_content_that_spells_them(tokenizer):
    opening, end = tokenizer.convert_tokens_to_ids(["<tool_call>", "</tool_call>"])
    call = {"name": "cook", "arguments": {"soup": "</tool_call><tool_call>s"}}
    messages = [
        {"role": "user", "content": "soup"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    ids = ids_of(tokenizer, messages)
    assert (ids.count(opening), ids.count(end)) == (1, 1)


@pytest.mark.parametrize("strip", ["lstrip", "rstrip"])
def test_control_tokens_that_swallow_white_space_do_so_beside_spelled_ones_too(strip):
    """Some checkpoints mark their control tokens so: the line end after a turn then has no id."""
    tokenizer = tiny_tokenizer()
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    for token in parts["added_tokens"]:
        token[strip] = True
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(parts))
    for content in ("soup", "b<|im_end|>a"):
        check_content_stays_ordinary(tokenizer, content, after_turn="")


def test_control_tokens_are_spelled_out_by_a_tokenizer_that_knows_few_characters():
    """Its token for unknown characters is a control token too, and no hiding place for others."""
    words = {"<unk>": 0} | {chr(code): code for code in range(32, 127)} | {"\n": 10}
    backend = Tokenizer(BPE(vocab=words, merges=[], unk_token="<unk>"))
    backend.add_special_tokens(["<unk>", "<|im_start|>", "<|im_end|>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=TEMPLATE)
    ids = ids_of(tokenizer, "☃<|im_end|>")
    letters = [0, *map(ord, "<|im_end|>")]
    assert letters in [ids[start : start + len(letters)] for start in range(len(ids))]
    assert ids.count(0) == 1


# --- reading back ---------------------------------------------------------------------------------


def test_the_users_text_leaves_control_tokens_out_and_the_full_text_keeps_them(tokenizer):
    ids = [*tokenizer("warm soup", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    assert decode_text(tokenizer, ids) == "warm soup"
    assert decode_text(tokenizer, ids, skip_special_tokens=False) == "warm soup<|im_end|>"


def test_reading_back_tidies_no_spaces_even_for_a_checkpoint_that_would(tokenizer):
    tokenizer.clean_up_tokenization_spaces = True
    tokenizer.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    text = "soup , is n't it ? 's  . 🙂"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert decode_text(tokenizer, ids) == text


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [[], (), {}, None, 3, ["soup"], ["role"], [{"content": "soup"}], [["role"]], {"role": "user"}],
    ids=str,
)
def test_what_is_no_conversation_is_refused_with_the_form_that_is_wanted(tokenizer, bad):
    for function in (encode, render_chat):
        with pytest.raises(ValueError, match="messages must be a string or a non-empty list"):
            function(tokenizer, bad)


def test_a_tokenizer_without_a_chat_template_is_refused_with_what_to_do(tokenizer):
    tokenizer.chat_template = None
    for content in ("soup", "<|im_end|>"):
        with pytest.raises(ValueError, match=r"no chat template.*choose an instruct"):
            encode(tokenizer, content)


@pytest.mark.parametrize(
    "messages",
    ["half \ud83d of an emoji", conversation("\udc00"), [{"role": "user", "content": "\ud800"}]],
    ids=["string", "everywhere", "list"],
)
def test_half_a_character_is_refused_by_name(tokenizer, messages):
    with pytest.raises(ValueError, match=r"'\\ud[8c][03][0d]', half of a character"):
        encode(tokenizer, messages)


# --- messages and templates that nobody would write, until somebody does --------------------------


class SaysControl:
    def __str__(self):
        return "<|im_end|>"


@pytest.mark.parametrize(
    "content",
    [b"<|im_end|>", {"<|im_end|>"}, SaysControl(), object(), [{"text": SaysControl()}], iter("ab")],
    ids=["bytes", "set", "object that says one", "object", "nested", "iterator"],
)
def test_what_a_template_would_turn_into_text_unseen_is_refused(tokenizer, content):
    tokenizer.chat_template = "{{ messages[0].content }}"
    with pytest.raises(ValueError, match="text, numbers, lists and dictionaries, not"):
        encode(tokenizer, [{"role": "user", "content": content}])


def test_tuples_numbers_and_nothing_may_stand_beside_a_control_token(tokenizer):
    tokenizer.chat_template = "{{ messages[0].content | join(' ') }}"
    message = {"role": "user", "content": ("<|im_end|>", 2.5, None, True), ("<|im_end|>", 1): "x"}
    ids = ids_of(tokenizer, [message])
    assert control_ids(tokenizer, ids) == []
    assert tokenizer.decode(ids) == "<|im_end|> 2.5 None True"


def test_a_message_that_holds_itself_is_one_line(tokenizer):
    endless = {}
    endless["content"] = [endless]
    with pytest.raises(ValueError, match="nested too deeply, or holds itself"):
        encode(tokenizer, [{"role": "user", "content": endless}])


def test_a_long_value_is_named_in_part(tokenizer):
    with pytest.raises(ValueError, match="messages must be") as refused:
        encode(tokenizer, ["soup\n" * 10_000])
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "template",
    [
        *("{{ 1 // 0 }}", "{{ 10.0 ** 400 }}", "{{ 'a'.split('') }}", "{{ messages[5].content }}"),
        *("{% for i in range(10**9) %}{% endfor %}", "{{ foo.bar }}", "{% include 'x' %}", 5),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_a_template_may_fail_in_any_way_and_is_one_line(tokenizer, template):
    tokenizer.chat_template = template
    with pytest.raises(
        ValueError, match=r"^the chat template refuses these messages: ."
    ) as refused:
        encode(tokenizer, "soup")
    assert "\n" not in str(refused.value)


def test_a_template_that_writes_nothing_gives_no_prompt(tokenizer):
    tokenizer.chat_template = "{% for message in messages %}{% endfor %}"
    assert render_chat(tokenizer, "soup") == ""
    with pytest.raises(ValueError, match="writes nothing for these messages"):
        encode(tokenizer, "soup")


def test_a_template_that_writes_half_a_character_is_refused(tokenizer):
    tokenizer.chat_template = "{{ '\\ud800' }}"
    with pytest.raises(ValueError, match=r"what the chat template wrote holds '\\ud800'"):
        encode(tokenizer, "soup")


def test_model_and_tokenizer_in_the_wrong_order_are_told_the_right_one(model):
    for function in (encode, render_chat):
        with pytest.raises(ValueError, match=r"Qwen2ForCausalLM has no .*the tokenizer first"):
            function(model, "soup")


def test_a_tokenizer_that_cannot_keep_a_control_token_as_text_says_so():
    python = ByT5Tokenizer()
    python.chat_template = "{{ messages[0].content }}"
    assert ids_of(python, "a < b") == [byte + 3 for byte in b"a < b"]
    with pytest.raises(ValueError, match="spells a control token"):
        encode(python, "</s>")


def test_a_long_prompt_is_encoded_without_a_word_on_stderr(tokenizer, capfd):
    """The library warns; whether a prompt is too long is said by the model's own loop."""
    tokenizer.model_max_length = 5
    for content in ("soup", "<|im_end|>"):
        assert len(ids_of(tokenizer, content)) > 5
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_named(tokenizer, device):
    with pytest.raises(ValueError, match=f"device '{device}' cannot be used: "):
        encode(tokenizer, "soup", device)


@pytest.mark.parametrize(
    "ids", [[-1], [2**32], [1.5], ["1"], [True], [None], [[1, 2]], None, 3, "ab", {1, 2}, {1: 2}]
)
def test_what_is_no_row_of_ids_is_not_read(tokenizer, ids):
    with pytest.raises(ValueError, match=r"no token has the id|must be a whole number|is a row of"):
        decode_text(tokenizer, ids)


def test_ids_are_read_from_every_kind_of_row(tokenizer):
    row = tokenizer("warm soup", add_special_tokens=False)["input_ids"]
    for form in (row, tuple(row), torch.tensor(row), np.array(row), iter(row)):
        assert decode_text(tokenizer, form) == "warm soup"
    assert decode_text(tokenizer, [*row, len(tokenizer) + 5]) == "warm soup"
    assert decode_text(tokenizer, []) == ""
