"""The figures: they draw their data, on the axes they are given, and change nothing else."""

import copy
import math
from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.patches import FancyArrowPatch

from inside_generate import (
    generate,
    kv_cache_bytes,
    logits_bytes,
    plots,
    weight_bytes,
)
from inside_generate.cache import with_kv_heads
from inside_generate.ceilings import Ceilings
from inside_generate.flops import matrix_flops, prefill_flops
from inside_generate.formats import FORMATS
from inside_generate.plots import style
from inside_generate.plots.cache import in_words
from inside_generate.plots.style import DECODE, PREFILL
from inside_generate.sweeps import LineFit, PrefillFit

mpl.use("agg")


@pytest.fixture
def trace(model, tokenizer):
    return generate(model, tokenizer, "soup", max_new_tokens=5, eos_token_ids=())


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


TREE = {
    "A": (0.51, {"A2": 0.10, **{f"A{n}": 0.09 for n in range(3, 13)}}),
    "B": (0.49, {"B2": 0.90, "今$": 0.10}),
    " the": (0.0, {"\n": 1.0}),
}

TPOT_MS = {"dynamic": 90.0, "compiled": 50.0, "int8": 40.0}
EXACT = {"dynamic": True, "compiled": True, "int8": False}
ERRORS = {"right": [0.0, 1e-5], "wrong": [0.5, 12.25]}

PARTS = {"weights": 900 * 1024**2, "KV cache": 1024**2, "logits": 40 * 1024**2, "activations": 5000}
ROOF = Ceilings("cpu", "float32", {"sum": 20.0}, {"A B, 8": 300.0})  # they meet at 15 FLOP a byte
PHASES = {
    "prefill": {"L 32": (32.0, 90.0), "L 64": (64.0, 120.0)},
    "decode": {"1 row": (0.5, 8.0), "2 rows": (1.0, 15.0), "4 rows": (2.0, 24.0)},
}
PAIRS = {"one, other": {"bfloat16": 0.2, "float32": 2e-5}, "twice the same": {"bfloat16": 0.0}}


def drawings(trace, config):
    return {
        "next tokens": lambda ax: plots.plot_next_tokens(trace.steps[0].top_k, ax=ax),
        "position distributions": lambda ax: plots.plot_position_distributions(
            ["a", "b"], [[0.5, 0.25], [0.9, 0.05]], ["x", "y"], ax=ax
        ),
        "prompt predictions": lambda ax: plots.plot_prompt_predictions(
            ["a", "b"], [0.1, 0.9], ax=ax
        ),
        "timeline": lambda ax: plots.plot_timeline(trace, ax=ax),
        "cache growth": lambda ax: plots.plot_cache_growth(trace, kv_cache_bytes(config, 1), ax=ax),
        "mask growth": lambda ax: plots.plot_mask_growth(trace, ax=ax),
        "whole path": lambda ax: plots.plot_whole_path(ax=ax),
        "causal mask": lambda ax: plots.plot_causal_mask([" a", "今", "$"], ax=ax),
        "combined mask": lambda ax: plots.plot_combined_mask(
            [0, 1, 1], tokens=["今", "$", "\n"], ax=ax
        ),
        "large combined mask": lambda ax: plots.plot_combined_mask([0] * 3 + [1] * 20, ax=ax),
        "large causal mask": lambda ax: plots.plot_causal_mask(13, ax=ax),
        "two distributions": lambda ax: plots.plot_two_distributions(
            ["今", "\n"], {"one": [0.9, 0.1], "other": [0.2, 0.8]}, ax=ax
        ),
        "joint tree": lambda ax: plots.plot_joint_tree(TREE, ax=ax),
        "kept": lambda ax: plots.plot_kept(
            ["今", "$"], [0.9, 0.1], {"top-k 1": [True, False], "top-p 1": [True, True]}, ax=ax
        ),
        "draws": lambda ax: plots.plot_draws(["今", "$"], [3, 0], [0.9, 0.1], ax=ax),
        "beam gain": lambda ax: plots.plot_beam_gain([1, 2], {"a $": [0.5, 1.0]}, ax=ax),
        "temperature": lambda ax: plots.plot_temperature(
            trace.steps[0].top_k, torch.arange(float(config.vocab_size)), 0.5, ax=ax
        ),
        "EOS": lambda ax: plots.plot_eos_probability([1e-9, 0.0, 0.6], [False, False, True], ax=ax),
        "error grid": lambda ax: plots.plot_error_grid(ERRORS, 1e-3, ax=ax),
        "live bytes": lambda ax: plots.plot_live_bytes({"a": [1e6, 9e6], "b": [1e6, 0]}, ax=ax),
        "bit layout": lambda ax: plots.plot_bit_layout(list(FORMATS.values()), ax=ax),
        "number line": lambda ax: plots.plot_number_line(
            [FORMATS["FP32"], FORMATS["BF16"]], 17.9, 18.2, [18.03], ax=ax
        ),
        "number ranges": lambda ax: plots.plot_number_ranges(
            [FORMATS["FP16"], FORMATS["BF16"]], ax=ax
        ),
        "margins": lambda ax: plots.plot_margins(trace, 0.5, ax=ax),
        "query meets keys": lambda ax: plots.plot_query_meets_keys("ABC", ax=ax),
        "work": lambda ax: plots.plot_work([4, 5, 6], [4, 1, 1], ax=ax),
        "total work": lambda ax: plots.plot_total_work([4, 5, 6], [4, 1, 1], ax=ax),
        "measured growth": lambda ax: plots.plot_measured_growth([1024, 2048], [1024, 2048], ax=ax),
        "cache to 32K": lambda ax: plots.plot_cache_to_32k(config, torch.bfloat16, ax=ax),
        "memory at": lambda ax: plots.plot_memory_at(config, 9, 3, torch.bfloat16, ax=ax),
        "head map": lambda ax: plots.plot_head_map(config, ax=ax),
        "memory by heads": lambda ax: plots.plot_cache_memory_by_heads(
            config, [1024, 2048], torch.bfloat16, ax=ax
        ),
        "prefill work": lambda ax: plots.plot_prefill_flops(config, range(0, 4097, 512), ax=ax),
        "prefill time": lambda ax: plots.plot_prefill_time(
            [64, 128, 256], [0.1, 0.3, 0.9], PrefillFit(0.05, 1e-3, 1e-5), ax=ax
        ),
        "decode time": lambda ax: plots.plot_decode_time(
            [64, 128, 256], [0.1, 0.11, 0.12], LineFit(0.1, 1e-4), ax=ax
        ),
        "TTFT and TPOT": lambda ax: plots.plot_ttft_tpot([5, 50], [0.1, 0.6], [0.08, 0.09], ax=ax),
        "times by rows": lambda ax: plots.plot_times_by_rows(
            [1, 8], [0.1, 0.6], [0.08, 0.09], ax=ax
        ),
        "roofline": lambda ax: plots.plot_roofline(ROOF, PHASES, ax=ax),
        "answer memory": lambda ax: plots.plot_answer_memory([9, 5, 6], [9, 5, 7], ax=ax),
        "memory parts": lambda ax: plots.plot_memory_parts(PARTS, PARTS, ax=ax),
        "error and margin": lambda ax: plots.plot_error_and_margin(
            [0.1, 0.2, 0.1], [1.0, 0.3, 0.0], [2], ax=ax
        ),
        "ladder": lambda ax: plots.plot_ladder(TPOT_MS, EXACT, 31.0, ax=ax),
        "shares": lambda ax: plots.plot_shares({"a": 0.3}, {"there": {"a": 0.2, "b": 0.6}}, ax=ax),
        "error by layer": lambda ax: plots.plot_error_by_layer(
            {"engine": [1e-7, 0.0, 2e-6], "broken": [1e-7, 0.1, 0.3]}, 1e-4, ax=ax
        ),
        "pairs": lambda ax: plots.plot_pairs(PAIRS, {"bfloat16": 0.5, "float32": 1e-3}, ax=ax),
        "logits memory": lambda ax: plots.plot_logits_memory(config, range(0, 4097, 512), ax=ax),
        "padded batch": lambda ax: plots.plot_padded_batch([[0, 1, 1], [1, 1, 1]], 2, ax=ax),
        "batch slots": lambda ax: plots.plot_batch_slots([5, 3], [1, 4], ax=ax),
        "batch step time": lambda ax: plots.plot_batch_step_time([1, 2], [0.1, 0.15], ax=ax),
        "batch throughput": lambda ax: plots.plot_batch_throughput([1, 2], [0.1, 0.15], ax=ax),
        "cut": lambda ax: plots.plot_cut({"a": ((4, 2), 0), "b": ((2, 4), 1)}, 2, ax=ax),
        "waiting": lambda ax: plots.plot_waiting([0.0, 0.1], [[1, 2], [0.5]], ax=ax),
        "latency": lambda ax: plots.plot_latency([1, 2], [0.1, 3.0], [0.1, 0.1], ax=ax),
        "slots": lambda ax: plots.plot_slots({"a": [2, 4]}, {"a": [1, 3]}, 4, ax=ax),
    }


NAMES = [
    "next tokens",
    "position distributions",
    "prompt predictions",
    "timeline",
    "cache growth",
    "mask growth",
    "whole path",
    "causal mask",
    "combined mask",
    "large combined mask",
    "large causal mask",
    "two distributions",
    "joint tree",
    "kept",
    "draws",
    "beam gain",
    "temperature",
    "EOS",
    "bit layout",
    "number line",
    "number ranges",
    "margins",
    "query meets keys",
    "work",
    "total work",
    "measured growth",
    "cache to 32K",
    "memory at",
    "head map",
    "memory by heads",
    "prefill work",
    "prefill time",
    "decode time",
    "TTFT and TPOT",
    "times by rows",
    "roofline",
    "answer memory",
    "memory parts",
    "logits memory",
    "error and margin",
    "error by layer",
    "ladder",
    "shares",
    "pairs",
    "padded batch",
    "batch slots",
    "batch step time",
    "batch throughput",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_draws_on_the_given_axes_and_on_its_own(name, trace, model):
    draw = drawings(trace, model.config)[name]
    figure, ax = plt.subplots()
    before = dict(mpl.rcParams)
    assert draw(ax) is ax
    assert draw(None).figure is not figure
    assert dict(mpl.rcParams) == before, "a figure must not set a style"
    figure.canvas.draw()  # a glyph that the font lacks would warn, and a warning is an error


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_says_its_message_and_its_units(name, trace, model):
    ax = drawings(trace, model.config)[name](None)
    assert ax.get_title(loc="left") or ax.get_title()
    assert ax.get_xlabel() or not ax.axison  # a diagram has no axes


def test_bars_are_as_long_as_the_logits(trace):
    ax = plots.plot_next_tokens(trace.steps[0].top_k)
    widths = [bar.get_width() for bar in ax.containers[0]]
    assert widths == pytest.approx([candidate.logit for candidate in trace.steps[0].top_k])


def test_a_positions_bars_lie_end_to_end_and_its_best_guess_is_named():
    ax = plots.plot_position_distributions(["a", "b"], [[0.5, 0.25], [0.9, 0.05]], ["x", "y"])
    spans = [number for bar in ax.patches for number in (bar.get_x(), bar.get_width())]
    assert spans == pytest.approx([0.0, 0.5, 0.5, 0.25, 0.0, 0.9, 0.9, 0.05])
    assert [text.get_text() for text in ax.texts] == ["'x'", "'y'"]


def test_the_time_line_is_as_long_as_the_run(trace):
    ax = plots.plot_timeline(trace)
    last = ax.patches[-1]
    assert len(ax.patches) == len(trace.steps)
    assert last.get_x() + last.get_width() == pytest.approx(
        1000 * sum(s.seconds for s in trace.steps)
    )


def test_the_growth_shows_each_length(trace, model):
    ax = plots.plot_cache_growth(trace, kv_cache_bytes(model.config, 1))
    assert list(ax.lines[1].get_ydata()) == [step.cache_length for step in trace.steps]


def test_the_causal_mask_lets_each_position_see_itself_and_what_is_before():
    ax = plots.plot_causal_mask(4)
    seen = ax.collections[0].get_array().reshape(4, 4)
    assert seen.tolist() == torch.ones(4, 4).tril().tolist()
    written = {tuple(text.get_position()[::-1]): text.get_text() for text in ax.texts}
    assert written[(1.5, 1.5)] == written[(3.5, 0.5)] == "0"
    assert written[(0.5, 3.5)] == written[(1.5, 2.5)] == "−∞"


def test_a_large_causal_mask_marks_what_is_hidden_by_hatching():
    ax = plots.plot_causal_mask(13)
    hatched = ax.patches[0].get_path()
    cells = [(row, column) for row in range(13) for column in range(13)]
    hidden = {cell for cell in cells if hatched.contains_point((cell[1] + 0.5, cell[0] + 0.5))}
    assert hidden == {(row, column) for row, column in cells if column > row}
    assert ax.patches[0].get_hatch()
    assert not ax.texts


def test_the_combined_mask_shows_what_both_masks_allow():
    ax = plots.plot_combined_mask(torch.tensor([0, 0, 1, 1]), tokens=["p", "p", "a", "b"])
    seen = ax.collections[0].get_array().reshape(4, 4)
    assert seen.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert [box.get_x() for box in ax.patches if box.get_hatch()] == [0, 1]
    assert [text.get_text() for text in ax.texts] == ["padding"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["'p'", "'p'", "'a'", "'b'"]


def test_a_mask_of_ones_leaves_the_causal_mask():
    ax = plots.plot_combined_mask([1, 1, 1])
    assert ax.collections[0].get_array().reshape(3, 3).tolist() == torch.ones(3, 3).tril().tolist()
    assert not ax.texts
    assert not [box for box in ax.patches if box.get_hatch()]


@pytest.mark.parametrize("row", [[], [1, 2], [-1, 1]])
def test_a_row_that_is_no_mask_is_refused(row):
    with pytest.raises(ValueError, match="holds ones and zeros, not"):
        plots.plot_combined_mask(row)
    with pytest.raises(ValueError, match="2 columns need as many tokens, not 3"):
        plots.plot_combined_mask([1, 1], tokens=["a", "b", "c"])


@pytest.mark.parametrize("nothing", [0, []])
def test_a_mask_of_nothing_is_refused(nothing):
    with pytest.raises(ValueError, match="at least one position"):
        plots.plot_causal_mask(nothing)


def test_two_distributions_stand_side_by_side():
    ax = plots.plot_two_distributions(["a", "b"], {"one": [0.9, 0.1], "other": [0.2, 0.8]})
    widths = {bars.get_label(): [bar.get_width() for bar in bars] for bars in ax.containers}
    assert widths == {"one": [0.9, 0.1], "other": [0.2, 0.8]}
    assert [bool(bars[0].get_hatch()) for bars in ax.containers] == [False, True]


@pytest.mark.parametrize("distributions", [{"one": [1.0]}, {"one": [1.0], "other": [0.5, 0.5]}])
def test_two_distributions_need_two_probabilities_a_token(distributions):
    with pytest.raises(ValueError, match="two contexts with 1 probabilities each"):
        plots.plot_two_distributions(["a"], distributions)


def test_every_key_is_met_by_the_last_query_and_every_value_is_read():
    ax = plots.plot_query_meets_keys("ABC")
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == 2 * 3
    assert {"$Q_{C}$", "$K_{A}$", "$V_{B}$"} <= {text.get_text() for text in ax.texts}


def test_work_is_drawn_forward_by_forward_and_added_up():
    without, with_cache = [4, 5, 6], [4, 1, 1]
    bars = plots.plot_work(without, with_cache).containers
    assert [[bar.get_height() for bar in group] for group in bars] == [without, with_cache]
    lines = plots.plot_total_work(without, with_cache).lines
    assert [list(line.get_ydata()) for line in lines] == [[4, 9, 15], [4, 5, 6]]


def test_measured_bytes_are_dots_beside_the_formulas_line():
    line, dots = plots.plot_measured_growth([1024, 3072], [1024, 2048]).lines
    assert (list(line.get_ydata()), list(dots.get_ydata())) == ([1, 2], [1, 3])


def test_the_cache_to_32k_is_a_line_a_batch_and_the_weights(model):
    ax = plots.plot_cache_to_32k(model.config, torch.float32, batches=(2, 6))
    one_row = kv_cache_bytes(model.config, 32_768, dtype=torch.float32) / 1024**3
    heights = [line.get_ydata()[-1] for line in ax.lines]
    weights = weight_bytes(model, torch.float32) / 1024**3
    assert heights == pytest.approx([2 * one_row, 6 * one_row, weights])
    assert {"B = 2", "B = 6", "weights"} == {text.get_text().strip() for text in ax.texts}


def test_labels_at_the_ends_of_close_lines_are_pushed_apart(model):
    ax = plots.plot_cache_to_32k(model.config, torch.float32, batches=(1, 100, 101))
    heights = sorted(text.get_position()[1] for text in ax.texts)
    assert min(above - below for below, above in pairwise(heights)) > 0.07 * heights[-1]


def test_memory_at_a_setting_shows_weights_cache_and_logits(model):
    config = model.config
    ax = plots.plot_memory_at(config, 9, 3, torch.float32)
    sizes = [bar.get_width() * 1024**2 for bar in ax.containers[0]]
    assert sizes == pytest.approx(
        [
            weight_bytes(config, torch.float32),
            kv_cache_bytes(config, 9, 3, torch.float32),
            logits_bytes(config, 9, 3, torch.float32),
            logits_bytes(config, 1, 3, torch.float32),
        ]
    )
    assert ax.get_xlabel() == "memory (MiB)"
    assert plots.plot_memory_at(config, 9, 10**6, torch.float32).get_xlabel() == "memory (GiB)"


@pytest.mark.parametrize(
    ("size", "words"), [(5, "5 bytes"), (1536, "1.5 KiB"), (2**20, "1 MiB"), (3 * 2**30, "3 GiB")]
)
def test_bytes_are_told_in_the_unit_that_suits_them(size, words):
    assert in_words(size) == words


def test_the_head_map_has_a_line_from_each_query_head_to_its_kv_head(model):
    ax = plots.plot_head_map(model.config)  # 4 query heads, 2 KV heads
    assert [list(line.get_xdata()) for line in ax.lines] == [[0, 0.5], [1, 0.5], [2, 2.5], [3, 2.5]]
    assert ax.get_title(loc="left") or ax.get_title() == "GQA: 4 query heads read 2 KV heads"


@pytest.mark.parametrize(("kv", "kind"), [(4, "MHA"), (1, "MQA")])
def test_the_head_map_names_the_ways_without_groups(model, kv, kind):
    ax = plots.plot_head_map(with_kv_heads(model.config, kv))
    assert (ax.get_title(loc="left") + ax.get_title()).startswith(kind)


def test_memory_by_heads_is_in_proportion_to_kv_heads(model):
    ax = plots.plot_cache_memory_by_heads(model.config, [1024, 2048], torch.bfloat16)
    ends = [line.get_ydata()[-1] for line in ax.lines]
    one = kv_cache_bytes(with_kv_heads(model.config, 1), 2048) / 1024**2
    assert ends == [4 * one, 2 * one, one]


def test_measured_caches_are_dots_at_their_length_and_size(model):
    measured = {4: {512: 3 * 1024**2}, 1: {512: 1024**2, 2048: 2 * 1024**2}}
    ax = plots.plot_cache_memory_by_heads(model.config, [512, 2048], torch.bfloat16, measured)
    dots = [(list(x), list(y)) for x, y in (line.get_data() for line in ax.lines[3:])]
    assert dots == [([512], [3]), ([512, 2048], [1, 2])]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["512", "2K"]
    assert "dots: measured" in ax.texts[-1].get_text()


def test_the_mask_shows_prompt_cache_and_new_token(trace):
    ax = plots.plot_mask_growth(trace)
    rows = ax.collections[0].get_array().reshape(len(trace.steps), -1)
    length = len(trace.prompt_ids)
    assert rows[0, :length].tolist() == [1.0] * length
    assert rows[2, : length + 2].tolist() == [0.0] * (length + 1) + [2.0]
    assert rows[2].mask.sum() == rows.shape[1] - (length + 2)


def test_the_tree_names_greedys_path_and_the_most_probable_pair():
    ax = plots.plot_joint_tree(TREE)
    at = {text.get_text(): text.get_position()[1] for text in ax.texts}
    assert at["A"] < at["greedy"] < at["A"] + 0.4  # the name stands above its row
    assert at["B"] < at["most probable"] < at["B"] + 0.4
    assert {"together 0.051", "together 0.441", "together 0.000"} <= set(at)
    assert "others: at most 0.09 each" in at
    thick = [line for line in ax.lines if line.get_linewidth() >= 3]
    assert {(line.get_color(), line.get_linestyle()) for line in thick} == {(style.CHOICE, "-")}
    assert {line.get_ydata()[-1] for line in thick} == {at["A"]}
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert {line.get_ydata()[-1] for line in dashed} == {at["B"]}


def test_a_tree_in_which_greedy_is_right_says_so():
    ax = plots.plot_joint_tree({"A": (0.6, {"x": 0.5}), "B": (0.4, {"y": 0.7})})
    assert "greedy and most probable" in [text.get_text() for text in ax.texts]
    assert ax.get_title(loc="left") + ax.get_title() == "Best steps make the best pair"


def test_a_full_dot_is_kept_and_an_empty_one_struck_out():
    ax = plots.plot_kept(["a", "b"], [0.9, 0.1], {"x": [True, False], "y": [False, True]})
    dots = {(*line.get_xdata(), *line.get_ydata()): line.get_markerfacecolor() for line in ax.lines}
    full = [place for place, face in dots.items() if face == style.CHOICE]
    assert sorted(full) == [(0, 0), (1, 1)]
    assert len(dots) == 4


def test_draws_are_drawn_as_shares_beside_what_they_should_be():
    ax = plots.plot_draws(["a", "b"], [30, 70], [0.2, 0.8])
    assert [bar.get_width() for bar in ax.patches] == [0.3, 0.7]
    reach = ax.collections[0].get_segments()[0][:, 0]
    assert reach == pytest.approx([0.2 - 0.08, 0.2 + 0.08])  # 2 √(0.2 · 0.8 / 100)


def test_no_draws_at_all_are_refused():
    with pytest.raises(ValueError, match=r"at least one draw is needed, not \[0, 0\]"):
        plots.plot_draws(["a", "b"], [0, 0], [0.2, 0.8])


def test_each_prompt_has_a_line_of_the_shares_that_its_beams_reach():
    ax = plots.plot_beam_gain([1, 5], {"a": [0.5, 1.0], "b": [1.0, 1.0]})
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == [[0.5, 1.0], [1.0, 1.0]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["'a'", "'b'"]


def test_more_prompts_than_lines_can_be_told_apart_are_refused():
    with pytest.raises(ValueError, match="at most 4 prompts in one figure, not 5"):
        plots.plot_beam_gain([1], {prompt: [1.0] for prompt in "abcde"})


def test_temperature_bars_are_softmax_over_the_whole_vocabulary(trace):
    candidates = trace.steps[0].top_k
    logits = torch.randn(352, generator=torch.Generator().manual_seed(0))
    ids = [candidate.token_id for candidate in candidates]
    ax = plots.plot_temperature(candidates, logits, 0.5)
    filled, outline = ([bar.get_width() for bar in bars] for bars in ax.containers)
    assert filled == pytest.approx((2 * logits).softmax(-1)[ids].tolist())
    assert outline == pytest.approx(logits.softmax(-1)[ids].tolist())
    rest = 1 - sum(filled)
    *numbers, key = [text.get_text() for text in ax.texts]
    assert numbers == [f"{width:.3f}" for width in filled]
    assert f"together: {rest:.3f}\nfilled, with the number: at temperature 0.5\n" in key


@pytest.mark.parametrize("bad", [0, -1.0])
def test_a_temperature_that_is_not_above_0_is_refused(trace, bad):
    with pytest.raises(ValueError, match=f"above 0, not {bad}"):
        plots.plot_temperature(trace.steps[0].top_k, torch.zeros(352), bad)


def test_each_step_shows_its_probability_of_eos_and_the_chosen_one_is_named():
    ax = plots.plot_eos_probability([1e-9, 1e-3, 0.6], [False, False, True])
    assert list(ax.lines[0].get_ydata()) == [1e-9, 1e-3, 0.6]
    assert [(text.get_text(), text.xy[0]) for text in ax.texts] == [("chosen", 3)]
    with pytest.raises(ValueError, match="not 1 and 2"):
        plots.plot_eos_probability([0.1], [True, False])


def test_a_formats_segments_are_its_bits_and_end_where_its_memory_ends():
    ax = plots.plot_bit_layout([FORMATS["TF32"], FORMATS["INT4"]])
    rows = {
        row: [bar.get_width() for bar in ax.patches if round(bar.get_y() + 0.36) == row]
        for row in (0, 1)
    }
    assert rows == {0: [1, 8, 10, 13], 1: [1, 3]}
    assert {text.get_text() for text in ax.texts} >= {"exponent 8", "mantissa 10", "unused 13"}


def test_the_number_line_marks_the_numbers_that_a_format_has():
    ax = plots.plot_number_line([FORMATS["BF16"], FORMATS["FP32"]], 15.9, 16.3, [16.03])
    marks = [path.vertices[0, 0] for path in ax.collections[0].get_paths()]
    assert marks == [15.9375, 16.0, 16.125, 16.25]
    assert len(ax.collections) == 2  # FP32's many numbers are an area
    assert len(ax.collections[1].get_paths()) == 1
    assert "0.0625 apart" in [text.get_text() for text in ax.texts]


def test_a_number_line_ends_where_a_format_ends():
    ax = plots.plot_number_line([FORMATS["FP8 E4M3"]], 400, 500)
    assert [path.vertices[0, 0] for path in ax.collections[0].get_paths()] == [416, 448]


@pytest.mark.parametrize("ends", [(0, 1), (2, 1), (-1, 1)])
def test_a_number_line_needs_an_interval_above_0(ends):
    with pytest.raises(ValueError, match="0 < low < high"):
        plots.plot_number_line([FORMATS["FP16"]], *ends)


def test_a_formats_range_reaches_from_its_smallest_to_its_largest():
    ax = plots.plot_number_ranges([FORMATS["FP16"]])
    (bar,) = ax.patches
    ends = 10 ** bar.get_x(), 10 ** (bar.get_x() + bar.get_width())
    assert ends == pytest.approx((2.0**-14, 65504))
    assert ax.texts[0].get_text() == " to 65,504"


def test_a_margin_within_rounding_is_hatched(trace):
    margins = [step.top_k[0].logit - step.top_k[1].logit for step in trace.steps]
    bound = sorted(margins)[2]
    ax = plots.plot_margins(trace, bound)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(margins)
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [one <= bound for one in margins]
    assert list(ax.lines[0].get_xdata()) == [bound, bound]


@pytest.mark.parametrize(
    ("text", "drawn"), [("a", "'a'"), (" $x", r"' \$x'"), ("\n", r"'\n'"), ("今", r"'\u4eca'")]
)
def test_a_label_holds_only_what_the_font_can_draw(text, drawn):
    assert style.label(text) == drawn


def test_one_colour_means_one_thing():
    colours = [
        *(style.PREFILL, style.DECODE, style.CACHE),
        *(style.CHOICE, style.WEIGHTS, style.ATTENTION),
    ]
    assert len(set(colours)) == 6


def top_edge(area, x):
    """How high a filled area reaches at ``x``."""
    return max(y for at, y in area.get_paths()[0].vertices if at == pytest.approx(x))


def test_the_areas_of_prefill_add_up_to_the_fit():
    fit = PrefillFit(0.05, 1e-3, 1e-5)
    ax = plots.plot_prefill_time([64, 128, 256], [0.1, 0.3, 0.9], fit)
    tops = [top_edge(area, 256) for area in ax.collections]
    assert tops == pytest.approx([50.0, 50.0 + 256.0, 50.0 + 256.0 + 655.36])
    assert list(ax.lines[0].get_ydata()) == pytest.approx([100, 300, 900])


def test_a_decode_steps_areas_are_its_constant_and_its_slope():
    ax = plots.plot_decode_time([64, 256], [0.1, 0.12], LineFit(0.1, 1e-4))
    assert [top_edge(area, 256) for area in ax.collections] == pytest.approx([100.0, 125.6])
    assert list(ax.lines[0].get_ydata()) == pytest.approx([100, 120])


def test_the_areas_of_work_add_up_to_prefills_operations(model):
    ax = plots.plot_prefill_flops(model.config, [0, 512, 1024])
    tops = [1e12 * top_edge(area, 1024) for area in ax.collections]
    expected = [matrix_flops(model.config, 1024), prefill_flops(model.config, 1024)]
    assert tops == pytest.approx(expected)


def test_both_times_stand_at_their_prompts():
    ax = plots.plot_ttft_tpot([5, 50], [0.1, 0.6], [0.08, 0.09])
    assert [list(line.get_ydata()) for line in ax.lines] == [[100, 600], [80, 90]]
    assert [text.get_text() for text in ax.texts] == ["TTFT", "TPOT"]


def test_both_times_stand_at_their_rows():
    ax = plots.plot_times_by_rows([1, 8], [0.1, 0.6], [0.08, 0.09])
    assert [list(line.get_xdata()) for line in ax.lines] == [[1, 8], [1, 8]]
    assert [list(line.get_ydata()) for line in ax.lines] == [[100, 600], [80, 90]]
    assert [text.get_text() for text in ax.texts] == ["TTFT", "TPOT"]


def test_the_roofline_bends_where_the_ceilings_meet_and_points_lie_as_measured():
    ax = plots.plot_roofline(ROOF, PHASES)
    roof, prefill, decode = ax.lines
    low, high = ax.get_xlim()
    assert list(roof.get_xdata()) == [low, 15.0, high]
    assert list(roof.get_ydata()) == [20 * low, 300, 300]
    for line, name, colour in ((prefill, "prefill", PREFILL), (decode, "decode", DECODE)):
        assert list(zip(*line.get_data(), strict=True)) == list(PHASES[name].values())
        assert line.get_color() == colour
    assert prefill.get_marker() != decode.get_marker()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_the_roofline_names_ceilings_phases_and_the_ends_of_each():
    said = [text.get_text() for text in plots.plot_roofline(ROOF, PHASES).texts]
    ceilings = ["matrix products: 300 GFLOP/s", "memory: 20 GB/s"]
    assert said == [*ceilings, "prefill\nL 32", "L 64", "decode\n1 row", "4 rows"]
    alone = plots.plot_roofline(ROOF, {"a step": {"1 row": (0.5, 8.0)}})
    assert [text.get_text() for text in alone.texts[2:]] == ["a step\n1 row"]


def test_each_forwards_memory_is_a_point_over_a_bar():
    mib = 1024**2
    ax = plots.plot_answer_memory([9 * mib, 5 * mib, 6 * mib], [10 * mib, 5 * mib, 7 * mib])
    assert [bar.get_height() for bar in ax.patches] == [9, 5, 6]
    points = [list(zip(*line.get_data(), strict=True)) for line in ax.lines]
    assert points == [[(1, 10)], [(2, 5), (3, 7)]]
    assert [line.get_color() for line in ax.lines] == [PREFILL, DECODE]


def test_each_part_of_memory_stands_twice_predicted_and_measured():
    measured = {**PARTS, "activations": 2 * 1024**2}
    ax = plots.plot_memory_parts(PARTS, measured)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx([900, 900, 1, 1, 40, 40, 5000 / 1024**2, 2])
    assert ax.texts[-1].get_text() == "2.00 measured"
    with pytest.raises(ValueError, match="the parts differ"):
        plots.plot_memory_parts(PARTS, {"weights": 1})


def test_all_logits_are_drawn_beside_cache_weights_and_one_row(model):
    config, mib = model.config, 1024**2
    ax = plots.plot_logits_memory(config, [0, 2048, 4096])
    sizes = (logits_bytes(config, 4096), kv_cache_bytes(config, 4096), logits_bytes(config, 1))
    ends = [line.get_ydata()[-1] * mib for line in ax.lines]
    assert ends == pytest.approx([*sizes, weight_bytes(config)])


# --- what cannot be drawn -------------------------------------------------------------------------


def changed(trace, **fields):
    return replace(trace, steps=tuple(replace(step, **fields) for step in trace.steps))


def test_a_padded_batch_has_a_position_in_each_real_cell_and_a_hatch_in_the_others():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ax = plots.plot_padded_batch(mask, prompt_columns=4)
    cells = [(patch.get_xy(), patch.get_hatch()) for patch in ax.patches]
    assert [xy for xy, hatch in cells if hatch] == [(-0.5, -0.5), (0.5, -0.5)]
    *numbers, new = ax.texts
    assert {text.get_position(): text.get_text() for text in numbers} == {
        **{(column, 0): str(column - 2) for column in (2, 3, 4)},
        **{(column, 1): str(column) for column in range(5)},
    }
    colours = [patch.get_facecolor() for patch in ax.patches]
    assert colours[4] == colours[9] != colours[3] == colours[5]
    assert (new.get_text(), new.xy[0]) == ("new", 4)
    texts = [text.get_text() for text in plots.plot_padded_batch(mask).texts]
    assert texts == [text.get_text() for text in numbers]


def test_the_slots_of_a_batch_are_its_inputs_and_hatched_where_nobody_needs_them():
    ax = plots.plot_batch_slots([35, 31, 41], [6, 1, 4])
    widths = [[bar.get_width() for bar in part] for part in ax.containers]
    assert widths == [[6, 10, 0], [35, 31, 41], [5, 0, 3], [0, 5, 2]]
    assert [bool(part[0].get_hatch()) for part in ax.containers] == [True, False, False, True]
    assert [text.get_text() for text in ax.texts] == ["padding", "prompt", "answer", "ended"]
    alike = plots.plot_batch_slots([3, 3], [1, 1])
    assert [text.get_text() for text in alike.texts] == ["prompt"]


def test_a_batchs_step_is_drawn_beside_a_step_for_each_row():
    one_by_one, together = plots.plot_batch_step_time([2, 4, 8], [0.1, 0.2, 0.3]).lines
    assert list(one_by_one.get_ydata()) == pytest.approx([100, 200, 400])
    assert list(together.get_ydata()) == pytest.approx([100, 200, 300])


@pytest.mark.parametrize("last", [0.1, 0.57, 0.79, 0.8, 0.81])
def test_the_names_of_a_batchs_two_lines_never_overlap(last):
    ax = plots.plot_batch_step_time([1, 8], [0.1, last])
    ax.figure.canvas.draw()
    one_by_one, together = (text.get_window_extent() for text in ax.texts)
    assert not one_by_one.padded(-1).overlaps(together)


def test_throughput_is_rows_a_second_and_each_row_gets_its_part():
    of_all, of_each = plots.plot_batch_throughput([1, 4], [0.1, 0.2]).lines
    assert list(of_all.get_ydata()) == pytest.approx([10, 20])
    assert list(of_each.get_ydata()) == pytest.approx([10, 5])


def refused(trace, config):
    """Calls with data that is empty, too short, not finite, or impossible."""
    nan, fp16, none = math.nan, torch.float16, replace(trace, steps=())
    one, logits = trace.steps[0].top_k[:1], torch.zeros(352)
    below_0, times = replace(one[0], token_id=-1), PrefillFit(0.1, 0.01, 0.001)
    return {
        "no candidates": lambda: plots.plot_next_tokens([]),
        "a logit that is NaN": lambda: plots.plot_next_tokens([replace(one[0], logit=nan)]),
        "too few predictions": lambda: plots.plot_prompt_predictions(["a", "b"], [0.5]),
        "a probability above 1": lambda: plots.plot_prompt_predictions(["a"], [1.5]),
        "guesses without rows": lambda: plots.plot_position_distributions(["a"], [], ["b"]),
        "a distribution below 0": lambda: plots.plot_two_distributions(
            ["a"], {"x": [0.1], "y": [-5]}
        ),
        "no tree": lambda: plots.plot_joint_tree({}),
        "a tree without ends": lambda: plots.plot_joint_tree({"a": (0.5, {})}),
        "a tree of NaN": lambda: plots.plot_joint_tree({"a": (nan, {"b": 0.5})}),
        "temperature of no candidates": lambda: plots.plot_temperature([], logits, 1.0),
        "logits that are NaN": lambda: plots.plot_temperature(one, logits * nan, 1.0),
        "an id below 0": lambda: plots.plot_temperature([below_0], logits, 1.0),
        "logits of a batch": lambda: plots.plot_temperature(one, logits[None], 1.0),
        "temperature NaN": lambda: plots.plot_temperature(one, logits, nan),
        "half a mask": lambda: plots.plot_combined_mask([1.9, 0.5]),
        "a mask of a fraction": lambda: plots.plot_causal_mask(2.5),
        "no steps": lambda: plots.plot_eos_probability([], []),
        "EOS above 1": lambda: plots.plot_eos_probability([2.0], [True]),
        "EOS that is NaN": lambda: plots.plot_eos_probability([nan], [True]),
        "nobody asks": lambda: plots.plot_query_meets_keys(()),
        "no parts": lambda: plots.plot_memory_parts({}, {}),
        "bytes that are NaN": lambda: plots.plot_memory_parts({"w": nan}, {"w": 1}),
        "logits of no length": lambda: plots.plot_logits_memory(config, []),
        "logits of length −1": lambda: plots.plot_logits_memory(config, [-1]),
        "work of no length": lambda: plots.plot_prefill_flops(config, []),
        "work of length −1": lambda: plots.plot_prefill_flops(config, [-1]),
        "heads of no length": lambda: plots.plot_cache_memory_by_heads(config, [], fp16),
        "heads of length −1": lambda: plots.plot_cache_memory_by_heads(config, [-1], fp16),
        "a batch below 0": lambda: plots.plot_cache_to_32k(config, fp16, (-1,)),
        "memory at −1": lambda: plots.plot_memory_at(config, -1, 1, fp16),
        "a run without time": lambda: plots.plot_timeline(none),
        "a run of NaN": lambda: plots.plot_timeline(changed(trace, seconds=nan)),
        "no growth": lambda: plots.plot_cache_growth(none, 1),
        "no bytes a token": lambda: plots.plot_cache_growth(trace, 0),
        "no mask": lambda: plots.plot_mask_growth(none),
        "no margins": lambda: plots.plot_margins(none, 0.1),
        "one candidate": lambda: plots.plot_margins(changed(trace, top_k=one), 0.1),
        "no bound": lambda: plots.plot_margins(trace, nan),
        "no work": lambda: plots.plot_work([], []),
        "work of half the forwards": lambda: plots.plot_work([6, 7], [6]),
        "no total": lambda: plots.plot_total_work([], []),
        "nothing measured": lambda: plots.plot_measured_growth([], []),
        "half measured": lambda: plots.plot_measured_growth([1, 2], [1]),
        "no layout": lambda: plots.plot_bit_layout([]),
        "no ranges": lambda: plots.plot_number_ranges([]),
        "the range of codes": lambda: plots.plot_number_ranges([FORMATS["INT8"]]),
        "no number line": lambda: plots.plot_number_line([], 1.0, 2.0),
        "a line of codes": lambda: plots.plot_number_line([FORMATS["INT8"]], 1.0, 2.0),
        "an endless line": lambda: plots.plot_number_line([FORMATS["FP16"]], 1.0, math.inf),
        "a value off the line": lambda: plots.plot_number_line([FORMATS["FP16"]], 1.0, 2.0, [5.0]),
        "one time of prefill": lambda: plots.plot_prefill_time([5], [0.1], times),
        "a fit of NaN": lambda: plots.plot_prefill_time([5, 6], [0.1, 0.2], PrefillFit(nan, 0, 0)),
        "no time of decode": lambda: plots.plot_decode_time([], [], LineFit(0.1, 0.01)),
        "no TTFT": lambda: plots.plot_ttft_tpot([], [], []),
        "a TTFT of NaN": lambda: plots.plot_ttft_tpot([5, 6], [nan, 0.1], [0.1, 0.1]),
        "no TTFT of rows": lambda: plots.plot_times_by_rows([], [], []),
        "a TPOT too few": lambda: plots.plot_times_by_rows([1, 2], [0.1, 0.2], [0.1]),
        "no point under a roof": lambda: plots.plot_roofline(ROOF, {}),
        "a rate of 0": lambda: plots.plot_roofline(ROOF, {"decode": {"1 row": (0.5, 0.0)}}),
        "an answer without steps": lambda: plots.plot_answer_memory([9], [9]),
        "an answer's step too few": lambda: plots.plot_answer_memory([9, 5, 6], [9, 5]),
        "a flat mask": lambda: plots.plot_padded_batch([0, 1]),
        "a mask without rows": lambda: plots.plot_padded_batch([]),
        "a mask of words": lambda: plots.plot_padded_batch("01"),
        "a mask of twos": lambda: plots.plot_padded_batch([[0, 2]]),
        "half a column": lambda: plots.plot_padded_batch([[0, 1]], 0.5),
        "answers without prompts": lambda: plots.plot_batch_slots([3, 4], [1]),
        "an answer of nothing": lambda: plots.plot_batch_slots([3, 4], [1, 0]),
        "no rows of a batch": lambda: plots.plot_batch_slots([], []),
        "a batch of no rows": lambda: plots.plot_batch_step_time([0], [0.1]),
        "no step time": lambda: plots.plot_batch_step_time([], []),
        "a step time of NaN": lambda: plots.plot_batch_throughput([1], [nan]),
        "no time at all": lambda: plots.plot_batch_throughput([1], [0.0]),
    }


def test_what_cannot_be_drawn_is_refused_in_one_line_before_a_figure_is_opened(trace, model):
    for name, draw in refused(trace, model.config).items():
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            assert draw() is None, f"{name} was drawn"
        assert plt.get_fignums() == [], name


def test_uneven_heads_are_refused_before_a_figure_is_opened(model):
    uneven = copy.deepcopy(model.config)
    uneven.num_key_value_heads = 3
    with pytest.raises(ValueError, match="4 query heads cannot be shared out"):
        plots.plot_head_map(uneven)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("temperature", [1e-40, 1e-300])
def test_next_to_temperature_0_the_best_token_has_all(trace, temperature):
    ids = [candidate.token_id for candidate in trace.steps[0].top_k]
    logits = torch.zeros(352)
    logits[ids[0]] = 1.0
    ax = plots.plot_temperature(trace.steps[0].top_k, logits, temperature)
    assert [bar.get_width() for bar in ax.containers[0]] == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_any_token_can_meet_the_keys():
    ax = plots.plot_query_meets_keys([*"}{^%#$_\\\0", "今", "a b", "\\frac", "A"])
    ax.figure.canvas.draw()  # a formula is read when it is drawn
    assert "$Q_{A}$" in {text.get_text() for text in ax.texts}


def test_a_mask_takes_numpys_and_tensors_numbers():
    for length in (np.int64(3), torch.tensor(3)):
        assert len(plots.plot_causal_mask(length).get_yticks()) == 3


def test_a_run_of_one_token_has_no_dot_for_tpot():
    ax = plots.plot_ttft_tpot([5, 50], [0.1, 0.6], [None, 0.09])
    assert [list(line.get_ydata()) for line in ax.lines] == [[100, 600], [90]]


def test_nothing_at_all_is_drawn_as_nothing():
    assert plots.plot_memory_parts({"w": 0}, {"w": 0}).get_xlim()[1] > 0
    assert plots.plot_decode_time([5], [0.0], LineFit(0.0, 0.0)).get_ylim()[1] > 0


def test_the_work_of_a_very_long_prompt_is_drawn(model):
    ax = plots.plot_prefill_flops(model.config, [0, 10**12])
    expected = prefill_flops(model.config, 10**12) / 1e12
    assert top_edge(ax.collections[1], 10**12) == pytest.approx(expected)


def test_steps_whose_margin_is_within_twice_the_error_are_shaded():
    ax = plots.plot_error_and_margin([0.1, 0.2, 0.1, 0.2], [1.0, 0.3, 0.0, 0.4], [2])
    assert [patch.get_x() for patch in ax.patches] == [1.5, 2.5, 3.5]
    margins, reach, parted = ax.lines
    assert list(reach.get_ydata()) == [0.2, 0.4, 0.2, 0.4]
    assert list(margins.get_ydata()) == [1.0, 0.3, pytest.approx(0.06), 0.4]  # 0 has no logarithm
    assert list(parted.get_xdata()) == [2]
    assert ax.get_yscale() == "log"


def test_a_pair_that_is_equal_says_so_and_each_format_has_its_own_sign():
    ax = plots.plot_pairs(PAIRS, {"bfloat16": 0.5, "float32": 1e-3})
    assert ax.texts[0].get_text() == "0"
    assert [line.get_marker() for line in ax.lines[:3]] == ["o", "s", "o"]
    assert [line.get_xdata()[0] for line in ax.lines[3:]] == [0.5, 1e-3]
    assert [text.get_text() for text in ax.get_yticklabels()] == list(PAIRS)


@pytest.mark.parametrize("wrong", [float("nan"), -1.0])
def test_differences_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="largest must be finite"):
        plots.plot_pairs({"pair": {"float32": wrong}}, {"float32": 1e-3})
    with pytest.raises(ValueError, match="errors must be finite"):
        plots.plot_error_and_margin([wrong], [1.0])


def test_the_title_says_when_a_pair_is_beyond_its_bound():
    bounds = {"bfloat16": 0.5, "float32": 1e-3}
    titles = [plots.plot_pairs(PAIRS, bounds).get_title()]
    titles.append(plots.plot_pairs({"a bug": {"float32": 2e-3}}, bounds).get_title())
    assert titles == ["Right programs stay left of their line", "More than rounding: beyond a line"]


def test_more_formats_than_there_are_signs_for_are_refused():
    with pytest.raises(ValueError, match="signs for 3 formats"):
        plots.plot_pairs({"pair": dict.fromkeys("abcd", 1.0)}, {"a": 1.0})


def test_error_grid_says_each_error_and_shades_those_beyond_rounding():
    ax = plots.plot_error_grid(ERRORS, 1e-3)
    assert [text.get_text() for text in ax.texts] == ["0.00", "0.00", "0.50", "12.2"]
    assert [text.get_weight() == "bold" for text in ax.texts] == [False, False, True, True]
    shades = ax.images[0].get_array()
    assert shades[0].tolist() == [0, 0] < shades[1].tolist()
    assert shades[1][0] < shades[1][1]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(ERRORS)


@pytest.mark.parametrize(
    ("errors", "allowed", "said"),
    [
        ({}, 1e-3, "at least one step"),
        ({"a": [1.0], "b": [1.0, 2.0]}, 1e-3, "as many"),
        ({"a": [math.nan]}, 1e-3, "errors of 'a'"),
        ({"a": [-1.0]}, 1e-3, "errors of 'a'"),
        ({"a": [1.0]}, 0, "allowed must be above 0"),
    ],
)
def test_error_grid_refuses_what_is_no_error(errors, allowed, said):
    with pytest.raises(ValueError, match=said):
        plots.plot_error_grid(errors, allowed)


def test_live_bytes_draws_a_named_line_for_each_way():
    ax = plots.plot_live_bytes({"a": [2**20, 2**21], "b": [0, 2**20]})
    assert [list(line.get_ydata()) for line in ax.lines] == [[1, 2], [0, 1]]
    assert [text.get_text() for text in ax.texts] == ["a", "b"]
    with pytest.raises(ValueError, match="at least one line"):
        plots.plot_live_bytes({})
    with pytest.raises(ValueError, match="at most 3 lines"):
        plots.plot_live_bytes({name: [1, 2] for name in "abcd"})


def test_the_ladder_names_its_fastest_exact_rung_and_hatches_what_is_not():
    ax = plots.plot_ladder(TPOT_MS, EXACT, 31.0)
    assert "compiled" in ax.get_title()
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, False, True]
    assert [bar.get_width() for bar in ax.patches] == [90.0, 50.0, 40.0]
    assert "No rung" in plots.plot_ladder({"int8": 40.0}, EXACT, 31.0).get_title()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (({"a": 1.0}, {}, 1.0), "nothing of 'a'"),
        (({"a": -1.0}, {"a": True}, 1.0), "-1.0"),
        (({}, {}, 1.0), "tpot_ms"),
        (({"a": 1.0}, {"a": True}, float("nan")), "floor_ms"),
    ],
)
def test_a_ladder_that_cannot_be_drawn_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        plots.plot_ladder(*arguments)


def test_shares_tell_what_was_measured_here_from_what_was_recorded():
    ax = plots.plot_shares({"a": 0.3}, {"there": {"a": 0.2, "b": 0.6}})
    here, there = ax.lines
    assert here.get_markerfacecolor() != "none"
    assert there.get_markerfacecolor() == "none"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "measured here",
        "recorded: there",
    ]
    assert list(there.get_ydata()) == [0, 1]
    for wrong in ({}, {str(n): {"a": 0.1} for n in range(5)}):
        with pytest.raises(ValueError, match=r"share to draw|at most 4"):
            plots.plot_shares({}, wrong)
