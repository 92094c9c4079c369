"""Where two runs first part: prompt ids, candidates after prefill, each token, the end.

What it knows: the order in which a run happens, and how to put a parting into words. What it leaves
to others: when logits count as the same (``near_ties``), and the verdict (``compare``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from inside_generate.comparing.differences import (
    common_mistake,
    first_difference,
    parted_texts,
)
from inside_generate.comparing.near_ties import (
    TopKDifference,
    compare_top_k,
    counted,
    explain_choice,
    named,
    two_best,
)
from inside_generate.comparing.run_fields import quoted, shortened
from inside_generate.comparing.run_file import Run, RunStep

STOP_REASON = "stop reason"


@dataclass(frozen=True)
class Finding:
    """One place where two runs part."""

    where: str  # "prompt", "prefill", "decode", "end"; "file" for one that is faulty in itself
    step: int | None  # number of the generated token, from 1
    lines: tuple[str, ...]  # what differs, then what that means
    near_tie: bool | None = None  # whether rounding explains it; None where that is not known


@dataclass
class Walk:
    """Goes through two runs side by side up to the first parting, and keeps what it saw."""

    reference: Run
    other: Run
    tolerance: float
    largest: float | None = None  # difference of logits that counted as the same
    agreed: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    sizes_told: set[str] = field(default_factory=set)

    def findings(self) -> list[Finding]:
        """Return the first parting; several where the ends differ in several ways."""
        return self.prompt() or self.prefill() or self.tokens() or self.end()

    # --- the stages of a run ----------------------------------------------------------------------

    def prompt(self) -> list[Finding]:
        """Compare the prompt's ids; where they are not in both files, its text."""
        ours, theirs = self.reference.prompt_ids, self.other.prompt_ids
        texts = parted_texts(
            "rendered prompt", self.reference.rendered_prompt, self.other.rendered_prompt
        )
        if ours is None or theirs is None or not (ours or theirs):
            self._lacking("prompt ids", ours, theirs)
            return [Finding("prompt", None, (texts,))] if texts else []
        index = first_difference(ours, theirs)
        if index is not None:
            return [self._other_prompt(index, ours, theirs, texts)]
        self.agreed.append(counted(len(ours), "prompt id"))
        self.remarks += [texts] if texts else []
        return []

    def prefill(self) -> list[Finding]:
        """Compare the candidates after prefill. With generated ids this is token 1's business."""
        if self.reference.steps and self.other.steps:
            return []
        ours, theirs = self.reference.top_k, self.other.top_k
        difference = compare_top_k(ours, theirs, self.tolerance)
        if difference.beyond:
            return [Finding("prefill", 1, difference.beyond, near_tie=False)]
        if ours and theirs:
            self._same(1, difference)
            self.agreed.append("the logits after prefill")
        else:
            self._lacking("the logits after prefill", ours or None, theirs or None)
        return []

    def tokens(self) -> list[Finding]:
        """Compare each token and its candidates, as long as both runs go on."""
        ours, theirs = self.reference.steps, self.other.steps
        if ours is None or theirs is None or not (ours or theirs):
            self._lacking("generated ids", ours, theirs)
            return []
        with_logits = 0
        for number, (our, their) in enumerate(zip(ours, theirs, strict=False), start=1):
            self._sizes(number, our, their)
            difference = compare_top_k(our.top_k, their.top_k, self.tolerance)
            if our.token_id != their.token_id:
                return [self._other_token(number, our, their, difference)]
            if difference.beyond:
                return [self._other_logits(number, our, difference)]
            self._same(number, difference)
            with_logits += bool(our.top_k and their.top_k)
        self._count(min(len(ours), len(theirs)), with_logits)
        return []

    def end(self) -> list[Finding]:
        """Compare how many tokens there are, why the runs ended, and the text."""
        ours, theirs = self.reference.steps, self.other.steps
        if ours is not None and theirs is not None and len(ours) != len(theirs):
            return [self._other_length(ours, theirs)]
        reasons = self.reference.stop_reason, self.other.stop_reason
        texts = self.reference.text, self.other.text
        return [*self._words(STOP_REASON, *reasons), *self._words("generated text", *texts)]

    # --- what is found ----------------------------------------------------------------------------

    def _other_prompt(
        self, index: int, ours: Sequence[int], theirs: Sequence[int], texts: str | None
    ) -> Finding:
        our, their = (
            self._name(ids[index]) if index < len(ids) else "nothing" for ids in (ours, theirs)
        )
        lines = [
            f"prompt id {index} (counted from 0): {our} in the reference, {their} in the other; "
            f"{len(ours)} ids against {len(theirs)}"
        ]
        if texts:
            lines.append(texts)
        elif self.reference.rendered_prompt is not None and self.other.rendered_prompt is not None:
            lines.append("the rendered prompts are the same, so the tokenizers are not")
        return Finding("prompt", None, (*lines, *common_mistake(ours, theirs)))

    def _other_token(
        self, number: int, our: RunStep, their: RunStep, difference: TopKDifference
    ) -> Finding:
        chosen = our.token_id, their.token_id
        near_tie, meaning = explain_choice(
            our.top_k, their.top_k, chosen, bool(difference.beyond), self.tolerance
        )
        lines = (
            f"token {number} ({phase(number)}): {self._name(our.token_id)} in the reference, "
            f"{self._name(their.token_id)} in the other",
            *two_best("reference", our.top_k, self.tolerance),
            *two_best("other", their.top_k, self.tolerance),
            *difference.beyond,
            meaning,
        )
        return Finding(phase(number), number, lines, near_tie)

    def _other_logits(self, number: int, our: RunStep, difference: TopKDifference) -> Finding:
        runs = self.reference.steps or (), self.other.steps or ()
        parted = first_difference(*([step.token_id for step in steps] for steps in runs))
        same = "to the end" if parted is None else f"up to token {parted}"
        lines = (
            f"token {number} ({phase(number)}): {self._name(our.token_id)} in both, "
            "chosen from other logits",
            *difference.beyond,
            *two_best("reference", our.top_k, self.tolerance),
            f"the ids are the same {same}",
        )
        return Finding(phase(number), number, lines, near_tie=False)

    def _other_length(self, ours: Sequence[RunStep], theirs: Sequence[RunStep]) -> Finding:
        number = min(len(ours), len(theirs)) + 1
        our, their = (
            self._name(steps[number - 1].token_id) if number <= len(steps) else "nothing"
            for steps in (ours, theirs)
        )
        lines = [
            f"token {number} ({phase(number)}): {our} in the reference, {their} in the other: "
            f"{len(ours)} tokens against {len(theirs)}"
        ]
        for whose, run in (("reference", self.reference), ("other", self.other)):
            limit = run.max_new_tokens
            words = "" if limit is None else f", max_new_tokens {shortened(limit)}"
            reason = shortened(run.stop_reason)
            lines.append(f"the {whose} gives the stop reason {reason}{words}")
        return Finding("end", number, tuple(lines))

    # --- what is kept -----------------------------------------------------------------------------

    def _words(self, what: str, ours: str | None, theirs: str | None) -> list[Finding]:
        if ours is None or theirs is None or not (ours or theirs):
            self._lacking(what, ours, theirs)
        elif parted := parted_texts(what, ours, theirs):
            return [Finding("end", None, (parted,))]
        else:
            self.agreed.append(what)
        return []

    def _lacking(self, what: str, ours: object, theirs: object) -> None:
        lacking = [name for name, had in (("reference", ours), ("other", theirs)) if had is None]
        where = f"not in the {' nor in the '.join(lacking)}" if lacking else "empty in both"
        self.not_compared.append(f"{what} ({where})")

    def _same(self, number: int, difference: TopKDifference) -> None:
        if difference.largest is not None:
            self.largest = max(difference.largest, self.largest or 0.0)
        if difference.near_ties:
            self.remarks += [f"token {number}: near tie, {tie}" for tie in difference.near_ties]

    def _count(self, tokens: int, with_logits: int) -> None:
        self.agreed.append(counted(tokens, "generated id"))
        if with_logits:
            self.agreed.append(f"the logits of {counted(with_logits, 'token')}")
        if missing := tokens - with_logits:
            tokens_left = counted(missing, "token")
            self.not_compared.append(f"the logits of {tokens_left} (not in both files)")

    def _sizes(self, number: int, our: RunStep, their: RunStep) -> None:
        """Remark on the first token at which shape, mask or cache differ: a likely cause."""
        for key in sorted(our.sizes.keys() & their.sizes.keys()) if our.sizes else ():
            values = our.sizes[key], their.sizes[key]
            if values[0] != values[1] and key not in self.sizes_told:
                self.sizes_told.add(key)
                words = " against ".join(map(shortened, values))
                self.remarks.append(f"{key} differs from token {number} on: {words}")

    def _name(self, token_id: int) -> str:
        """Return the id with its text, where either file tells it."""
        steps = (*(self.reference.steps or ()), *(self.other.steps or ()))
        for step in steps:
            if step.token_id == token_id and step.text is not None:
                return f"{token_id} {quoted(step.text)}"
        return named(token_id, *(step.top_k for step in steps))


def phase(number: int) -> str:
    """Return which phase of a run makes this token."""
    return "prefill" if number == 1 else "decode"
