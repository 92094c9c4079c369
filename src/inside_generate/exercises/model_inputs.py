"""The checks of the exercises in `04_model_inputs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from inside_generate.exercises.checking import (
    RIGHT,
    UNTRIED,
    answer,
    attempt,
    check_table,
    real_tensor,
    same,
    shown,
)

PAD = 9
ROWS = (  # rows of ids; the padding id may stand in a text too
    [[1, 2, 3], [4]],
    [[5], [6, 7], [1, 2, 3, 4]],
    [[PAD, 3], [4, PAD, 2]],
)
MASKS = ([[1, 1, 1, 1], [0, 0, 1, 1]], [[1, 1, 1]], [[0, 1, 1], [0, 0, 1], [1, 1, 1]])
TEXTS = ("soup and bread", "今天午饭吃什么?", "a 🥢 and a 🫖!")
REPLACEMENT = "\ufffd"  # what decoding puts in the place of bytes that are no character


def check_padding(function: Any) -> str:
    """Check ``function(lengths)``: how many padding tokens a batch of such rows needs."""
    cases = {
        (lengths,): len(lengths) * max(lengths) - sum(lengths)
        for lengths in ((35,), (6, 3), (35, 32, 12), (4, 4))
    }
    return check_table(
        function,
        cases,
        {
            "that is the size of the whole tensor, real tokens included": (
                lambda lengths: len(lengths) * max(lengths)
            ),
            "that is what the shortest row needs; what do the others need?": (
                lambda lengths: max(lengths) - min(lengths)
            ),
            "those are the real tokens; the padding is what is missing to full rows": sum,
        },
    )


def check_pad(function: Any) -> str:
    """Check ``function(rows, pad_id)``: ``input_ids`` and ``attention_mask``, left-padded."""
    if function is ...:
        return UNTRIED
    for rows in ROWS:
        result, error = attempt(function, [list(row) for row in rows], PAD)
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        found = _two_tables(result)
        if found is None:
            return answer("return two tensors [B, L] of whole numbers, the ids and the mask")
        if hint := _pad_hint(rows, *found):
            return answer(hint)
    return RIGHT


def _two_tables(result: Any) -> tuple[list[Any], list[Any]] | None:
    try:
        ids, mask = (_table(table) for table in result)
    except Exception:  # the value's own code may raise anything
        return None
    return None if ids is None or mask is None else (ids, mask)


def _table(value: Any) -> list[Any] | None:
    found = real_tensor(value)
    if found is None or found.dim() != 2 or not same(found.long(), found):  # 1.5 is no id
        return None
    return found.long().tolist()


def _pad_hint(rows: Sequence[list[int]], ids: list[Any], mask: list[Any]) -> str | None:
    width = max(map(len, rows))
    gaps = [width - len(row) for row in rows]
    if ids == [row + [PAD] * gap for row, gap in zip(rows, gaps, strict=True)]:
        return "the padding goes to the left, so that the last column holds a token of each row"
    right = [[PAD] * gap + row for row, gap in zip(rows, gaps, strict=True)]
    if ids != right:
        return f"the rows {rows}, padded with {PAD}, should be {right}, not {shown(ids)}"
    real = [[0] * gap + [1] * len(row) for row, gap in zip(rows, gaps, strict=True)]
    if mask == [[int(number != PAD) for number in row] for row in ids] != real:
        return f"a text may hold id {PAD} too: the mask comes from the lengths, not from the ids"
    if mask == [[1 - number for number in row] for row in real]:
        return "the other way round: 1 is a token, 0 is padding"
    return None if mask == real else f"the mask of {rows} should be {real}, not {shown(mask)}"


def check_may_look(function: Any) -> str:
    """Check ``function(attention_mask)``: [B, L] → [B, L, L], true where row i may look at j."""
    if function is ...:
        return UNTRIED
    for rows in MASKS:
        mask = torch.tensor(rows)
        result, error = attempt(function, mask.clone())
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        found = real_tensor(result)
        if found is None:
            return answer(f"return a tensor, not {shown(result)}")
        if hint := _may_look_hint(mask.bool(), found):
            return answer(hint)
    return RIGHT


def _may_look_hint(mask: torch.Tensor, result: torch.Tensor) -> str | None:
    length = mask.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    right = causal & mask[:, None, :]
    if result.shape != right.shape:
        shape = list(result.shape)
        return f"the shape is {list(right.shape)}, one square for each prompt, not {shape}"
    if bool(result.double().isnan().any()):
        return "some cells are not a number (NaN): return True or False, or 1 and 0"
    mistakes = {
        "that is the causal mask alone: where has the padding gone?": causal.expand_as(right),
        "that is the attention mask alone: a position looks at later ones": (
            mask[:, None, :].expand_as(right)
        ),
        "rows and columns have changed places: row i looks at column j": right.mT,
        "a position may look at itself too": right & ~torch.eye(length, dtype=torch.bool),
        "the mask belongs to the columns, to what is looked at": causal & mask[:, :, None],
    }
    found = result.double() != 0
    if torch.equal(found, right):
        return None
    named = [hint for hint, wrong in mistakes.items() if torch.equal(found, wrong)]
    return named[0] if named else f"{mask.int().tolist()} should give {right.int().tolist()}"


def check_streamed(function: Any, tokenizer: PreTrainedTokenizerBase) -> str:
    """Check ``function(tokenizer, ids)``: for each id the text that can be shown then, a list.

    Joined, the texts are the decoded whole; a character is held back until it is whole. What came
    before it with the same id may be held back with it.
    """
    if function is ...:
        return UNTRIED
    for text in TEXTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        result, error = attempt(function, tokenizer, list(ids))
        if result is ...:
            return UNTRIED
        if error:
            return answer(error)
        if hint := _streamed_hint(tokenizer, ids, result):
            return answer(hint)
    return RIGHT


def _streamed_hint(tokenizer: PreTrainedTokenizerBase, ids: list[int], result: Any) -> str | None:
    whole = tokenizer.decode(ids)
    if not isinstance(result, list | tuple) or not all(isinstance(part, str) for part in result):
        return f"return a list of strings, not {shown(result)}"
    if len(result) != len(ids):
        return f"{len(ids)} ids come in, one after the other: return as many texts, some empty"
    if any(REPLACEMENT in part for part in result):
        return "you show a character before all of its bytes are there: decode the ids so far"
    if "".join(result) != whole:
        return f"joined, your texts give {shown(''.join(result))} and not {whole!r}"
    if result[-1] == whole and len(ids) > 1:
        return "everything waits for the end: what is whole can be shown at once"
    for count in range(1, len(ids) + 1):
        text, joined = tokenizer.decode(ids[:count]), "".join(result[:count])
        so_far = text.rstrip(REPLACEMENT)
        waits = text != so_far and not result[count - 1]  # for the rest of a character
        if joined != so_far and not waits:
            late = so_far.startswith(joined)
            when = "is too late: what is whole can be shown at once" if late else "is too early"
            return f"{count} ids make {so_far!r}; to have shown {shown(joined)} by then {when}"
    return None
