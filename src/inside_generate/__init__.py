"""Inside generate(): one answer of a language model, stage by stage.

The table names the course's public functions and the module that teaches each, in the order in
which an answer needs them. A module is imported when one of its names is first used, so that
``python -m inside_generate doctor`` can still speak where torch cannot be imported.
"""

from importlib import import_module
from typing import Any

_TAUGHT_IN = {
    "find": "finding",
    "load": "models",
    "render_chat": "chat",
    "encode": "chat",
    "decode_text": "chat",
    "text_pieces": "streaming",
    "prefill": "loop",
    "decode_step": "loop",
    "stream": "loop",
    "generate": "loop",
    "generate_batch": "batch",
    "encode_batch": "padding",
    "append_one": "loop",
    "cached_length": "loop",
    "cached_keys_and_values": "loop",
    "greedy": "sampling",
    "beam_search": "beam",
    "SeesTokens": "sampling",
    "Step": "trace",
    "Trace": "trace",
    "Player": "player",
    "kv_cache_bytes": "cache",
    "measured_kv_bytes": "cache",
    "logits_bytes": "cache",
    "weight_bytes": "cache",
    "provenance": "environment",
    "run_record": "record",
    "InsideGenerateError": "errors",
}

__all__ = sorted(_TAUGHT_IN)


def __getattr__(name: str) -> Any:
    if name not in _TAUGHT_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_TAUGHT_IN[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
