"""The checks of the exercises in `03_chat_template`."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from inside_generate.chat import control_tokens, render_chat
from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    shown,
    whole_numbers,
)

Conversation = list[dict[str, str]]

SYSTEM = {"role": "system", "content": "Be kind."}
USER = {"role": "user", "content": "soup"}
ASSISTANT = {"role": "assistant", "content": "bread"}

START, END = "<|im_start|>", "<|im_end|>"


def check_turn_starts(function: Any) -> str:
    """Check ``function(messages)``: how many turns the rendered text begins."""
    return _check_conversations(
        function,
        [
            [USER],
            [SYSTEM, USER],
            [USER, ASSISTANT, USER],
            [SYSTEM, USER, ASSISTANT, USER],
            [USER, SYSTEM, USER],
        ],
        lambda turns: len(turns) + (turns[0]["role"] != "system") + 1,
        {
            "where there is no system message the template writes one": (
                lambda turns: len(turns) + 1
            ),
            "the default is inserted only where the first message is not the system's": (
                lambda turns: len(turns) + 2
            ),
            "the turn that the generation prompt opens begins, too": (
                lambda turns: len(turns) + (turns[0]["role"] != "system")
            ),
            "those are the messages; the template writes more than they say": len,
            "a system message further down does not keep the default away: the first one counts": (
                lambda turns: len(turns) + (SYSTEM not in turns) + 1
            ),
        },
    )


def check_render(function: Any) -> str:
    """Check ``function(messages)``: the text of a conversation that has a system message."""
    return _check_conversations(
        function,
        [
            [SYSTEM, USER],
            [SYSTEM, USER, ASSISTANT, {"role": "user", "content": "two\nlines"}],
            [SYSTEM, {"role": "user", "content": "  soup "}],
        ],
        _render,
        {
            "the text ends after the last turn: where does the assistant's begin?": (
                lambda turns: _turns(turns)
            ),
            "the assistant's turn is opened and not ended: the model ends it": (
                lambda turns: _render(turns) + END
            ),
            "a new line stands after the generation prompt too, as after each role": (
                lambda turns: _render(turns).removesuffix("\n")
            ),
            "between the role and the content stands a new line": (
                lambda turns: _turns(turns, after_role="") + f"{START}assistant\n"
            ),
            "between the role and the content stands a new line, not a space": (
                lambda turns: _turns(turns, after_role=" ") + f"{START}assistant\n"
            ),
            "a content is written as it is, with the spaces around it": (
                lambda turns: _render([{**t, "content": t["content"].strip()} for t in turns])
            ),
            "each turn ends with a new line, after its closing token": (
                lambda turns: _turns(turns, after_end="") + f"{START}assistant\n"
            ),
        },
    )


def _render(turns: Conversation) -> str:
    return _turns(turns) + f"{START}assistant\n"


def _turns(turns: Conversation, after_role: str = "\n", after_end: str = "\n") -> str:
    return "".join(
        f"{START}{turn['role']}{after_role}{turn['content']}{END}{after_end}" for turn in turns
    )


def _check_conversations(
    function: Any,
    conversations: list[Conversation],
    right: Callable[[Conversation], Any],
    mistakes: Mapping[str, Callable[[Conversation], Any]],
) -> str:
    """Check a function of messages by a table, whose rows are numbered: lists are no keys."""
    if function is ... or not callable(function):
        return check_table(function, {}, {})

    def numbered(answers: Callable[[Conversation], Any]) -> Callable[[int], Any]:
        return lambda number: answers(copy.deepcopy(conversations[number - 1]))

    cases = {(number,): numbered(right)(number) for number in range(1, len(conversations) + 1)}
    said = check_table(
        numbered(function), cases, {hint: numbered(wrong) for hint, wrong in mistakes.items()}
    )
    for number, turns in enumerate(conversations, start=1):
        said = said.replace(f"for ({number},) ", f"for {turns} ")
    return said


def check_two_steps(function: Any) -> str:
    """Check ``function(tokenizer, messages)``: ids, on a tokenizer that would add a BOS token."""
    if function is ...:
        return UNTRIED
    for turns in ([USER], [USER, ASSISTANT, USER]):
        result, error = attempt(function, _tokenizer_with_bos(), copy.deepcopy(turns))
        if result is ...:
            return UNTRIED
        hint = error or _two_steps_hint(result, _tokenizer_with_bos(), turns)
        if hint:
            return answer(hint)
    return RIGHT


def _two_steps_hint(
    result: Any, tokenizer: PreTrainedTokenizerBase, turns: Conversation
) -> str | None:
    found = None if isinstance(result, str) else whole_numbers(result)
    if found is None:
        return f"return a list of ids, not {type(result).__name__}"
    opened = tokenizer(render_chat(tokenizer, turns), add_special_tokens=False)["input_ids"]
    closed_text = render_chat(tokenizer, turns, add_generation_prompt=False)
    closed = tokenizer(closed_text, add_special_tokens=False)["input_ids"]
    if found in ([opened[0], *opened], [opened[0], *closed]):
        return "this tokenizer's BOS stands there twice: the template has written it already"
    if found == closed:
        return "the assistant's turn is not opened: where is the generation prompt?"
    yours = shown(found)
    return None if found == opened else f"for {turns} the ids are {opened}, you return {yours}"


def _tokenizer_with_bos() -> PreTrainedTokenizerBase:
    """Return a tokenizer of six words that puts ``<s>`` first, as its template does."""
    words = ["<s>", "user", "assistant", "soup", "bread", "?"]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    template = (
        "{{ bos_token }}{% for turn in messages %}{{ turn.role }} {{ turn.content }} {% endfor %}"
        "{% if add_generation_prompt %}assistant {% endif %}"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", chat_template=template
    )


def check_spells_control_token(function: Any, tokenizer: PreTrainedTokenizerBase) -> str:
    """Check ``function(tokenizer, text)``: whether the text holds a control token."""
    if function is ...:
        return UNTRIED
    known = [token for token in control_tokens(tokenizer) if token.strip()]
    cases = {("soup and bread",): False}
    cases |= {(f"soup{token}bread",): True for token in known}
    none = ("a < b and c > d", "a <| b |> c", "soup <b>and</b> bread", "soup <|and|> bread")
    cases |= {(text,): False for text in none if not _holds_any(text, known)}
    cases |= {(token[1:],): False for token in known if not _holds_any(token[1:], known)}
    return check_table(
        (lambda text: function(tokenizer, text)) if callable(function) else function,
        cases,
        {
            "a bracket is no control token yet; the whole string has to be there": (
                lambda text: "<" in text
            ),
            "not each word between brackets is one: what does the tokenizer say it knows?": (
                lambda text: re.search(r"<[^<> ]+>", text) is not None
            ),
            "`<|` is no control token yet; the whole string has to be there": (
                lambda text: "<|" in text
            ),
            "there are more than one of them: what does the tokenizer say it knows?": (
                lambda text: START in text
            ),
            "there are more than two of them: what does the tokenizer say it knows?": (
                lambda text: START in text or END in text
            ),
            "that finds those that are marked as special; others are found as whole strings too": (
                lambda text: _holds_any(text, tokenizer.all_special_tokens)
            ),
            "the other way round: `True` where there is one": (
                lambda text: not _holds_any(text, known)
            ),
        },
    )


def _holds_any(text: str, tokens: list[str]) -> bool:
    return any(token in text for token in tokens)
