"""The reference model's own settings, from the two small files that it is published with.

They need no weights and no network, so the book's figures of the reference can be computed, and
asserted, whatever model is loaded.
"""

from __future__ import annotations

from importlib import resources

from transformers import AutoConfig, GenerationConfig, PretrainedConfig

_FILES = resources.files("inside_generate") / "data" / "qwen2.5-0.5b-instruct"


def reference_config() -> PretrainedConfig:
    """Return the architecture of the reference: layers, heads, sizes."""
    with resources.as_file(_FILES) as folder:
        return AutoConfig.from_pretrained(folder, local_files_only=True)


def reference_generation_config() -> GenerationConfig:
    """Return what ``generate()`` does with the reference when it is told nothing else."""
    with resources.as_file(_FILES) as folder:
        return GenerationConfig.from_pretrained(folder, local_files_only=True)
