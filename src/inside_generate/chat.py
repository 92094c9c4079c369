"""From messages to token ids, and back.

This module knows how a conversation becomes the text that a chat model was tuned on, and how that
text becomes ids. It knows nothing of the model: that starts in ``loop.py``.

The one thing it does that the library does not: a message that *spells* a control token, such as
``<|im_end|>``, stays ordinary text. Were it tokenized as it stands, whoever writes a message could
end their own turn and begin another one, the system's included.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from inside_generate.errors import in_a_line, shown
from inside_generate.guards import check_has, check_ids_in_a_row, check_text

Messages = str | Sequence[Mapping[str, Any]]


def as_messages(messages: Messages) -> list[dict[str, Any]]:
    """Return a list of messages; a string is taken as one turn of the user."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    turns: list[Any] = list(messages) if isinstance(messages, Sequence) else []
    if not turns or not all(isinstance(turn, Mapping) and "role" in turn for turn in turns):
        raise ValueError(
            "messages must be a string or a non-empty list of "
            f'{{"role": …, "content": …}}, not {shown(messages)}'
        )
    try:
        for text in _strings_in(turns):
            check_text("a message", text)
    except RecursionError:
        raise ValueError("a message is nested too deeply, or holds itself") from None
    return [dict(turn) for turn in turns]


def render_chat(
    tokenizer: PreTrainedTokenizerBase,
    messages: Messages,
    *,
    add_generation_prompt: bool = True,
) -> str:
    """Return the conversation in the text format that the model was tuned on.

    ``add_generation_prompt`` opens the assistant's turn at the end, so that what the model
    continues is an answer. Raises ``ValueError`` where the checkpoint has no chat template.

    A template is a program of the checkpoint's. The library runs it in a sandbox, which keeps it
    from files and network, and one loop from more than 100,000 rounds; but not loops in loops.
    """
    check_has(tokenizer, "chat_template", hint="load() returns the tokenizer first, then the model")
    turns = as_messages(messages)
    if not tokenizer.chat_template:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path!r} has no chat template: "
            "it belongs to a base model; choose an instruct (chat) model"
        )
    try:
        rendered = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=add_generation_prompt
        )
    except Exception as error:  # a program from anywhere may fail in any way
        raise ValueError(f"the chat template refuses these messages: {in_a_line(error)}") from error
    check_text("what the chat template wrote", rendered)
    return rendered


def encode(
    tokenizer: PreTrainedTokenizerBase,
    messages: Messages,
    device: torch.device | str | None = None,
) -> BatchEncoding:
    """Render and tokenize one conversation: ``input_ids`` and ``attention_mask``, both [1, L].

    For ordinary content the ids are exactly those of the template's own text. Control tokens
    spelled in a message are encoded as the characters they are written with. How long a prompt may
    be is the model's affair: ``prefill`` says when it is too long.
    """
    rendered = render_chat(tokenizer, messages)
    turns = as_messages(messages)
    # The template already wrote the special tokens; the tokenizer must not add more.
    ids = tokenizer(rendered, add_special_tokens=False, verbose=False)["input_ids"]
    if not ids:
        raise ValueError("the chat template writes nothing for these messages: there is no prompt")
    hide = _placeholders(tokenizer, turns)
    if hide:
        hidden = render_chat(tokenizer, _replace_strings(turns, hide))
        own = tokenizer(
            hidden, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        if _control_ids(tokenizer, ids) != _control_ids(tokenizer, own["input_ids"]):
            ids = _encode_with_literals(tokenizer, rendered, hidden, own, hide)
    try:
        input_ids = torch.tensor([ids], dtype=torch.long, device=device)  # [1, L]
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used: {in_a_line(error)}") from error
    return BatchEncoding({"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)})


def decode_text(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], *, skip_special_tokens: bool = True
) -> str:
    """Return the text of ``ids`` as a user reads it, without the control tokens by default.

    An id of the model's that the tokenizer has no token for adds nothing.
    """
    row = [check_id(token_id) for token_id in check_ids_in_a_row("what is decoded", ids)]
    return tokenizer.decode(
        row, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
    )


def check_id(token_id: int) -> int:
    """Return an id that a tokenizer can be asked about, or raise."""
    if not 0 <= token_id < 2**32:
        raise ValueError(f"no token has the id {shown(token_id)}")
    return token_id


def control_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the tokens that are matched as whole strings before ordinary tokenizing, with ids."""
    return {token.content: index for index, token in tokenizer.added_tokens_decoder.items()}


# --- content that spells control tokens -----------------------------------------------------------
#
# Idea: hide the characters with which control tokens begin, in the messages only, and render: what
# the tokenizer then finds are the template's own control tokens. If the plain rendering holds
# others, cut the text at the template's own, put the hidden characters back, and tokenize the
# pieces between the cuts as ordinary text.


def _strings_in(value: Any) -> Iterable[str]:
    """Yield all text in nested messages; what might turn into text unseen is an error."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings_in([*value.keys(), *value.values()])  # templates write keys too
    elif isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        for item in value:
            yield from _strings_in(item)
    elif value is not None and not isinstance(value, Number):
        raise ValueError(
            f"a message may hold text, numbers, lists and dictionaries, not {shown(value)}"
        )


def _control_ids(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[int]:
    known = set(control_tokens(tokenizer).values())
    return [index for index in ids if index in known]


def _replace_strings(value: Any, table: Mapping[str, str]) -> Any:
    """Return a copy of nested messages in which each key of ``table`` has become its value."""
    if isinstance(value, str):
        for old, new in table.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, Mapping):
        return {
            _replace_strings(key, table): _replace_strings(item, table)
            for key, item in value.items()
        }
    if isinstance(value, Sequence):
        kind = tuple if isinstance(value, tuple) else list
        return kind(_replace_strings(item, table) for item in value)
    return value


def _placeholders(
    tokenizer: PreTrainedTokenizerBase, turns: list[dict[str, Any]]
) -> dict[str, str]:
    """Return a private-use character, unused so far, for each that may begin a control token.

    Only those that occur in the messages. White space, of which some tokenizers match runs as
    whole tokens, controls nothing.
    """
    text = "\0".join(_strings_in(turns))
    tokens = [token.lstrip() for token in control_tokens(tokenizer) if token.strip()]
    first = {form for token in tokens for form in _forms(tokenizer, token[0])}
    found = [c for c in sorted(set(text)) if not c.isspace() and first & _forms(tokenizer, c)]
    unused = (chr(code) for code in range(0xF0000, 0x10FFFE) if chr(code) not in text)
    return {character: next(unused) for character in found}


def _forms(tokenizer: PreTrainedTokenizerBase, character: str) -> set[str]:
    """Return what normalising may make of a character: a full-width ＜ may become a plain one.

    The tokenizer's own normaliser counts, and Unicode's widest decomposition: in it, characters
    that any of Unicode's forms takes for one share a part.
    """
    normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    own = normalizer.normalize_str(character) if normalizer is not None else ""
    own = own.replace("▁", "")  # SentencePiece's space, which may be put in front of anything
    return {character, *own, *unicodedata.normalize("NFKD", character + own)}


def _encode_with_literals(
    tokenizer: PreTrainedTokenizerBase,
    rendered: str,
    hidden: str,
    own: BatchEncoding,
    hide: Mapping[str, str],
) -> list[int]:
    """Return ids in which only the template's ``own`` control tokens are control ids.

    ``hidden`` is the rendering with placeholders, ``own`` its tokens with their offsets.
    """
    check_has(
        tokenizer,
        "backend_tokenizer",
        hint="a message spells a control token, and this tokenizer cannot keep it as plain text",
    )
    show = {placeholder: character for character, placeholder in hide.items()}
    if _replace_strings(hidden, show) != rendered:
        raise ValueError(
            "a message spells a control token, and this chat template changes what a message says: "
            "it cannot be kept as plain text; take the control token out of the message"
        )
    names = {index: token for token, index in control_tokens(tokenizer).items()}
    ids: list[int] = []
    done = 0
    for index, (start, end) in zip(own["input_ids"], own["offset_mapping"], strict=True):
        if index in names and names[index] in hidden[start:end]:
            ids.extend(_encode_ordinary(tokenizer, _replace_strings(hidden[done:start], show)))
            ids.append(index)
            done = end
    ids.extend(_encode_ordinary(tokenizer, _replace_strings(hidden[done:], show)))
    return ids


def _encode_ordinary(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return ids of ``text`` by the tokenizer's own stages, without looking for control tokens."""
    backend = tokenizer.backend_tokenizer
    if backend.normalizer is not None:
        text = backend.normalizer.normalize_str(text)
    words = [text]
    if backend.pre_tokenizer is not None:
        words = [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
    return [token.id for word in words for token in backend.model.tokenize(word)]
