"""Drives llama.cpp inside its own environment; see `worker` for who calls it."""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np

CHUNK = 512  # prompt tokens that are handed over at once: its own default


class LlamaCpp:
    """A loaded model. Its KV cache is in fp16, which is its default."""

    def __init__(self, weights: str, threads: int, context: int) -> None:
        # By its name: where the course's code is checked, this package is not.
        self.library: Any = importlib.import_module("llama_cpp")
        self.version = f"llama-cpp-python {self.library.__version__}"
        self.llama = self.library.Llama(
            model_path=weights,
            n_ctx=context,
            n_batch=CHUNK,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
        )

    def answer(
        self, prompt_ids: list[int], new_tokens: int
    ) -> tuple[list[int], float, list[float]]:
        """Return the greedy ids, the seconds to the first, and those of each decode step."""
        ids, seconds = [], []
        fed = prompt_ids
        self.llama.reset()
        for _ in range(new_tokens):
            start = time.perf_counter()
            ids.append(int(self.logits_after(fed).argmax()))
            seconds.append(time.perf_counter() - start)
            fed = ids[-1:]
        return ids, seconds[0], seconds[1:]

    def forced(self, prompt_ids: list[int], ids: list[int]) -> np.ndarray:
        """Return the logits that score each of ``ids``, fed one by one: [T, V] float32."""
        self.llama.reset()
        rows = [self.logits_after(prompt_ids).copy()]
        rows += [self.logits_after([token_id]).copy() for token_id in ids[:-1]]
        return np.stack(rows)

    def logits_after(self, ids: list[int]) -> np.ndarray:
        """Feed ``ids`` and return the logits of the last, [V]; the next call overwrites them."""
        self.llama.eval(ids)
        pointer = self.library.llama_get_logits(self.llama.ctx)
        return np.ctypeslib.as_array(pointer, (self.llama.n_vocab(),))


def load(**settings: Any) -> LlamaCpp:
    """Load the model."""
    return LlamaCpp(**settings)


def quantise(source: str, target: str, threads: int) -> None:
    """Write ``source`` again as Q4_K_M: about 4.5 bits a weight, and more where rows do not fit.

    Its blocks are 256 numbers long. Rows of 896, for example, get 5.5 or 8.5 bits a weight.
    """
    library: Any = importlib.import_module("llama_cpp")
    settings = library.llama_model_quantize_default_params()
    settings.nthread = threads
    settings.ftype = library.LLAMA_FTYPE_MOSTLY_Q4_K_M
    code = library.llama_model_quantize(source.encode(), target.encode(), settings)
    if code != 0:
        raise RuntimeError(f"the quantiser gave up with code {code}")
