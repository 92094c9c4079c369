"""A checkpoint of the reference's sizes whose weights are random: for time and memory alone.

What a step costs follows from shapes and number format, not from what the numbers say; so a machine
without a model can still be measured. What such a model answers is noise. It lies on disk like any
other model, and its manifest says what it is. What is left to others: finding and loading it
(`models`), which sizes the reference has (`reference`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, STAND_IN, WEIGHTS
from inside_generate.getting.integrity import damage, read_manifest, sha256, write_manifest
from inside_generate.home import home, model_directory
from inside_generate.quiet import quiet
from inside_generate.reference import reference_config, reference_generation_config

NAME = "random-weights"
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # at the reference's ids, in this order
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)
CHATML = """\
{%- if messages[0].role != 'system' -%}
{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""


def random_checkpoint(seed: int = 0) -> Path:
    """Return the directory of a random checkpoint in the reference's form, made where it is not.

    Its weights are bf16, as the reference's. It lies in the course's folder or, where that cannot
    be written, in the system's folder for temporary files.
    """
    for folder in (home() / "random", Path(tempfile.gettempdir()) / "inside-generate"):
        directory = folder / f"{NAME}-{seed}"
        if is_random(directory) and damage(directory) is None:
            return directory
        if is_writable(folder):
            return write_random_checkpoint(
                directory, reference_config(), reference_generation_config(), seed
            )
    raise OSError(f"no folder can be written for random weights: neither {home()} nor {folder}")


def is_random(directory: Path) -> bool:
    """Return whether this directory says that its weights are random."""
    manifest = read_manifest(directory)
    return manifest is not None and manifest["name"] == NAME


def is_writable(folder: Path) -> bool:
    """Return whether files can be put into ``folder``, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def write_random_checkpoint(
    directory: Path, config: PretrainedConfig, generation: GenerationConfig, seed: int = 0
) -> Path:
    """Write weights, configs and a tokenizer; the directory appears whole or not at all.

    The same seed gives the same bytes under the same versions. Whatever ``directory`` held is gone.
    """
    partial = directory.with_name(f".{directory.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with quiet():
            _write_model(partial, config, generation, seed)
            _write_tokenizer(partial, config)
        what = f"random weights (seed {seed}) in the form of {CHECKPOINTS[REFERENCE].model_id}"
        write_manifest(partial, NAME, what, sha256(partial / WEIGHTS))
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def _write_model(
    directory: Path, config: PretrainedConfig, generation: GenerationConfig, seed: int
) -> None:
    """Write what the library makes up for a new model of this config, in bf16."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    model.generation_config = generation
    model.save_pretrained(directory, max_shard_size="100GB")  # one file


def _write_tokenizer(directory: Path, config: PretrainedConfig) -> None:
    """Take the tokenizer of a model of the course whose weights are missing, or make one up."""
    for name in (REFERENCE, STAND_IN):
        source = model_directory(name)
        if config.vocab_size == reference_config().vocab_size and _has_tokenizer(source):
            for file in filter(Path.is_file, (source / part for part in TOKENIZER_FILES)):
                shutil.copy(file, directory)
            return
    byte_tokenizer(config.bos_token_id).save_pretrained(directory)


def _has_tokenizer(directory: Path) -> bool:
    return (directory / "tokenizer.json").is_file()


def byte_tokenizer(base: int) -> PreTrainedTokenizerFast:
    """Return a ChatML tokenizer that knows bytes, with its control tokens from id ``base`` on.

    A byte is a token. The ids between the 256 bytes and ``base`` have names, so that whatever a
    random model picks can be shown as text; no text leads to them.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fillers = (f"Ġw{number}" for number in range(len(alphabet), base))  # Ġ stands for a space
    vocabulary = {text: number for number, text in enumerate([*alphabet, *fillers])}
    backend = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = ByteLevel()
    backend.add_special_tokens([AddedToken(text, normalized=False) for text in CONTROL])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=CONTROL[2],
        pad_token=CONTROL[0],
        chat_template=CHATML,
        clean_up_tokenization_spaces=False,
    )
