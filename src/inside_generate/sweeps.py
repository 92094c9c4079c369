"""How time grows: prefill with the prompt, a decode step with what the cache holds.

It knows how to time several things fairly and how to fit a curve to the medians. The clock is
``timing``'s; caches are made in ``loop``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Cache, PreTrainedModel

from inside_generate.cache import kv_cache_bytes
from inside_generate.checks import check_window
from inside_generate.guards import check_numbers, check_sizes
from inside_generate.loop import decode_step, drop_last, prefill
from inside_generate.synthetic import synthetic_cache
from inside_generate.timing import Clock, device_clock

MOST_TOKENS = 1e12  # more than any model takes, and the square is still a number
Seconds = dict[int, list[float]]  # length in tokens → one reading a round


@dataclass(frozen=True)
class Lengths:
    """What to measure on one machine."""

    prefill: tuple[int, ...]  # prompt lengths, tokens
    context: tuple[int, ...]  # tokens in the cache before a decode step
    batch: int  # rows of a decode step
    few_layers: tuple[int, ...]  # longer prompts, for ``with_few_layers``


@dataclass(frozen=True)
class LineFit:
    """``seconds = constant_s + slope_s_per_token · tokens``."""

    constant_s: float
    slope_s_per_token: float

    def seconds(self, tokens: float) -> float:
        """Return what the line says for so many tokens."""
        return self.constant_s + self.slope_s_per_token * tokens


@dataclass(frozen=True)
class PrefillFit:
    """``seconds = constant_s + linear_s_per_token · L + quadratic_s_per_token2 · L²``."""

    constant_s: float
    linear_s_per_token: float
    quadratic_s_per_token2: float

    def parts(self, length: float) -> tuple[float, float, float]:
        """Return the three terms for a prompt of ``length`` tokens, in seconds."""
        return (
            self.constant_s,
            self.linear_s_per_token * length,
            self.quadratic_s_per_token2 * length**2,
        )


def lengths_for(model: PreTrainedModel) -> Lengths:
    """Return lengths that this device does in seconds and that fit the model's positions.

    A GPU needs many rows: with one, it waits for Python longer than it reads keys and values.
    """
    window = getattr(model.config, "max_position_embeddings", None) or 16_384
    if window < 9:
        raise ValueError(f"a sweep needs at least 9 positions, and the model has {window}")
    longest = min(16_384, window - 1)  # the step adds a token
    context = tuple(longest * eighths // 8 for eighths in (1, 2, 4, 6, 8))
    if model.device.type != "cuda":
        prompts = _fitting((32, 64, 128, 192), window)
        longer = _fitting((256, 512, 1024, 2048), window)
        return Lengths(prompts, context, batch=1, few_layers=longer)
    free_bytes, _ = torch.cuda.mem_get_info(model.device)
    rows = free_bytes // 8 // kv_cache_bytes(model.config, longest, dtype=model.dtype)
    prompts = _fitting((512, 1024, 2048, 4096, 8192, 16_384), window)
    return Lengths(prompts, context, batch=max(1, min(128, rows)), few_layers=prompts)


def _fitting(lengths: tuple[int, ...], window: int) -> tuple[int, ...]:
    """Return the lengths that fit; parts of the window where these are too few for a fit."""
    fitting = tuple(length for length in lengths if length <= window)
    return fitting if len(fitting) >= 3 else (window // 4, window // 2, window)


def rows_for(model: PreTrainedModel) -> tuple[int, ...]:
    """Return batches that show on this device what more rows cost: larger ones on a GPU."""
    return (1, 2, 4, 8) if model.device.type != "cuda" else (1, 8, 32, 128)


def with_few_layers(model: PreTrainedModel, layers: int = 2) -> PreTrainedModel:
    """Return a model of ``layers`` layers like those of ``model``, random weights, 1024 ids.

    For timing long prompts: a layer takes the time it takes in the whole model.
    """
    check_sizes(1, layers=layers)
    if layers > model.config.num_hidden_layers:
        raise ValueError(f"the model has {model.config.num_hidden_layers} layers, not {layers}")
    config = copy.deepcopy(model.config)
    config.num_hidden_layers, config.vocab_size = layers, 1024
    config.pad_token_id = None  # it may be an id that is no longer there
    config.name_or_path = ""  # it comes from no checkpoint
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    small: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=model.dtype)
    return small.to(model.device).eval()


def time_in_turn(
    runs: Mapping[int, Callable[[], object]],
    repeats: int,
    clock: Clock,
    restore: Callable[[int], object] = lambda _: None,
) -> Seconds:
    """Time each run ``repeats`` times, after one warm-up of each that is not counted.

    They take turns, forwards and backwards, so that a machine that slows down slows all of them.
    ``restore`` is called with a run's key after each run, outside the time.
    """
    check_sizes(1, repeats=repeats)
    seconds: Seconds = {key: [] for key in runs}
    order = list(runs)
    for turn in range(repeats + 1):
        for key in order:
            start = clock()
            runs[key]()
            elapsed = clock() - start
            restore(key)
            if turn > 0:  # turn 0 is the warm-up
                seconds[key].append(elapsed)
        order.reverse()
    return seconds


def prefill_seconds(
    model: PreTrainedModel, lengths: Sequence[int], repeats: int = 3, clock: Clock | None = None
) -> Seconds:
    """Return the seconds of prefill, last row of logits only, for each prompt length."""

    def prompt(length: int) -> dict[str, torch.Tensor]:
        check_sizes(1, length=length)
        check_window(length, model.config)  # before memory is asked for
        ids = torch.arange(length, device=model.device)[None] % model.config.vocab_size  # [1, L]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def run(inputs: dict[str, torch.Tensor]) -> Callable[[], object]:
        return lambda: prefill(model, inputs)

    runs = {length: run(prompt(length)) for length in lengths}
    return time_in_turn(runs, repeats, clock or device_clock(model.device))


def decode_seconds(
    model: PreTrainedModel,
    context_lengths: Sequence[int],
    repeats: int = 5,
    batch: int = 1,
    clock: Clock | None = None,
) -> Seconds:
    """Return the seconds of one decode step for each number of tokens cached before it.

    The caches are synthetic. A step makes its cache longer; that is undone outside the time.
    """
    caches = {length: synthetic_cache(model, length, batch) for length in context_lengths}
    token_ids = torch.zeros(batch, 1, dtype=torch.long, device=model.device)  # [B, 1]

    def run(length: int, cache: Cache) -> Callable[[], object]:
        mask = token_ids.new_ones(batch, length + 1)
        return lambda: decode_step(model, token_ids, cache, mask)

    runs = {length: run(length, cache) for length, cache in caches.items()}
    clock = clock or device_clock(model.device)
    return time_in_turn(runs, repeats, clock, restore=lambda length: drop_last(caches[length]))


def medians(seconds: Seconds) -> list[float]:
    """Return the median of each length's readings, in seconds, in the order of the lengths."""
    return [median(check_numbers("readings", one, low=0)) for one in seconds.values()]


def fit_line(tokens: Sequence[float], seconds: Sequence[float]) -> LineFit:
    """Return the line with the least squared distance from the readings."""
    x, y = _points(tokens, seconds, needed=2)
    slope, constant = np.polyfit(x, y, deg=1)
    return LineFit(float(constant), float(slope))


def fit_prefill(lengths: Sequence[int], seconds: Sequence[float]) -> PrefillFit:
    """Return constant, linear and quadratic part, none of them negative, that fit best.

    Distances are relative, so that short prompts count as much as long ones.
    """
    x, y = _points(lengths, seconds, needed=3)
    if min(y) == 0:
        raise ValueError("relative distances need times above 0, not 0.0")
    longest = max(x)
    parts = np.array(x) / longest  # about 1, so that the squares lose no digits
    terms = np.stack([parts**0, parts, parts**2], axis=1) / np.array(y)[:, None]
    constant, linear, quadratic = _least_squares_from_0_up(terms)
    return PrefillFit(constant, linear / longest, quadratic / longest**2)


def _least_squares_from_0_up(terms: np.ndarray) -> list[float]:
    """Return factors ≥ 0 for the columns whose sum is nearest to 1 in every row.

    With three columns all choices of those that take part can be tried: the best one is exact.
    """
    best, smallest = np.zeros(terms.shape[1]), np.inf
    for part in product([False, True], repeat=terms.shape[1]):
        factors = np.zeros(terms.shape[1])
        used = np.array(part)
        factors[used] = np.linalg.lstsq(terms[:, used], np.ones(len(terms)), rcond=None)[0]
        distance = float(((terms @ factors - 1) ** 2).sum())
        if (factors >= 0).all() and distance < smallest:
            best, smallest = factors, distance
    return [float(factor) for factor in best]


def _points(
    tokens: Sequence[float], seconds: Sequence[float], needed: int
) -> tuple[list[float], list[float]]:
    """Return lengths and times as plain numbers, or raise where no fit can be made of them."""
    x = check_numbers("lengths", tokens, at_least=0, low=0, high=MOST_TOKENS)
    y = check_numbers("seconds", seconds, at_least=0, low=0)
    if len(x) != len(y) or len(set(x)) < needed:
        raise ValueError(
            f"a fit needs a time for each of at least {needed} different lengths, "
            f"not {len(y)} times for the lengths {list(tokens)}"
        )
    return x, y
