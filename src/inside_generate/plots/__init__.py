"""The figures of the book. Each takes data, draws on an ``Axes`` and returns it.

Nothing here shows or saves a figure, and a style is set by one function only: a notebook calls
``use_book_style`` once. One module a subject; all functions can be imported from here.
"""

from inside_generate.plots.attention import plot_causal_mask
from inside_generate.plots.batch import (
    plot_batch_slots,
    plot_batch_step_time,
    plot_batch_throughput,
    plot_padded_batch,
)
from inside_generate.plots.beyond import plot_cut, plot_latency, plot_slots, plot_waiting
from inside_generate.plots.breaking import plot_error_grid, plot_live_bytes
from inside_generate.plots.cache import (
    plot_cache_to_32k,
    plot_measured_growth,
    plot_memory_at,
    plot_total_work,
    plot_work,
)
from inside_generate.plots.choice import plot_joint_tree, plot_temperature
from inside_generate.plots.disagreement import plot_error_and_margin, plot_pairs
from inside_generate.plots.engine import plot_error_by_layer
from inside_generate.plots.formats import plot_bit_layout, plot_number_line, plot_number_ranges
from inside_generate.plots.heads import plot_cache_memory_by_heads, plot_head_map
from inside_generate.plots.ladder import plot_ladder, plot_shares
from inside_generate.plots.margins import plot_margins
from inside_generate.plots.masks import plot_combined_mask
from inside_generate.plots.memory import plot_answer_memory, plot_logits_memory, plot_memory_parts
from inside_generate.plots.query_meets_keys import plot_query_meets_keys
from inside_generate.plots.roofline import plot_roofline
from inside_generate.plots.run import plot_cache_growth, plot_mask_growth, plot_timeline
from inside_generate.plots.sampling import plot_beam_gain, plot_draws, plot_kept
from inside_generate.plots.stopping import plot_eos_probability
from inside_generate.plots.style import use_book_style
from inside_generate.plots.timing import (
    plot_decode_time,
    plot_prefill_flops,
    plot_prefill_time,
    plot_times_by_rows,
    plot_ttft_tpot,
)
from inside_generate.plots.token_strip import token_strip
from inside_generate.plots.tokens import (
    plot_next_tokens,
    plot_position_distributions,
    plot_prompt_predictions,
    plot_two_distributions,
)
from inside_generate.plots.whole_path import plot_whole_path

__all__ = [
    "plot_answer_memory",
    "plot_batch_slots",
    "plot_batch_step_time",
    "plot_batch_throughput",
    "plot_beam_gain",
    "plot_bit_layout",
    "plot_cache_growth",
    "plot_cache_memory_by_heads",
    "plot_cache_to_32k",
    "plot_causal_mask",
    "plot_combined_mask",
    "plot_cut",
    "plot_decode_time",
    "plot_draws",
    "plot_eos_probability",
    "plot_error_and_margin",
    "plot_error_by_layer",
    "plot_error_grid",
    "plot_head_map",
    "plot_joint_tree",
    "plot_kept",
    "plot_ladder",
    "plot_latency",
    "plot_live_bytes",
    "plot_logits_memory",
    "plot_margins",
    "plot_mask_growth",
    "plot_measured_growth",
    "plot_memory_at",
    "plot_memory_parts",
    "plot_next_tokens",
    "plot_number_line",
    "plot_number_ranges",
    "plot_padded_batch",
    "plot_pairs",
    "plot_position_distributions",
    "plot_prefill_flops",
    "plot_prefill_time",
    "plot_prompt_predictions",
    "plot_query_meets_keys",
    "plot_roofline",
    "plot_shares",
    "plot_slots",
    "plot_temperature",
    "plot_timeline",
    "plot_times_by_rows",
    "plot_total_work",
    "plot_ttft_tpot",
    "plot_two_distributions",
    "plot_waiting",
    "plot_whole_path",
    "plot_work",
    "token_strip",
    "use_book_style",
]
