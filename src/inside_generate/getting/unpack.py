"""One GGUF file -> a plain model directory that any Hugging Face tool reads.

What it knows: how a GGUF file names and stores weights and settings, and what is lost on the
way into it. Such a file holds a whole model, its weights usually quantised: a few bits for each
number, and a scale for each block of 32 or 256 of them. Unpacking multiplies the scales back
in; what rounding has taken stays lost. A GGUF also keeps neither sampling settings nor more
than one EOS id.
What it leaves to others: the tokenizer (`unpack_tokenizer`), whether it is the right file
(`packages`), when the finished directory becomes visible (`fetch`).
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, Qwen2Config

from inside_generate.checkpoints import WEIGHTS
from inside_generate.errors import InsideGenerateError
from inside_generate.getting.unpack_tokenizer import build_tokenizer

CONFIG_CLASSES = {"qwen2": Qwen2Config, "llama": LlamaConfig}


def unpack(gguf_file: Path, directory: Path) -> None:
    """Write config, generation config, bf16 safetensors and tokenizer into ``directory``."""
    reader = gguf.GGUFReader(gguf_file)
    config = build_config(reader)
    config.save_pretrained(directory)
    GenerationConfig(**_special_ids(reader)).save_pretrained(directory)
    build_tokenizer(reader).save_pretrained(directory)
    _save_weights(read_weights(reader, config), directory / WEIGHTS)


def field(reader: gguf.GGUFReader, name: str) -> Any:
    """Return what the file's head holds under ``name``, as a Python object; ``None`` if nothing."""
    found = reader.get_field(name)
    return None if found is None else found.contents()


def build_config(reader: gguf.GGUFReader) -> Qwen2Config | LlamaConfig:
    """Return the model's sizes under the model library's names.

    There is no flag for tied embeddings: the output matrix is in the file or it is not. Epsilon
    is stored in 32 bits, so that 1e-06 comes out as 9.99999997e-07: it is rounded back.
    """
    kind = field(reader, "general.architecture")
    if kind not in CONFIG_CLASSES:
        raise InsideGenerateError(
            f"cannot unpack a GGUF of architecture {kind!r}, only {', '.join(CONFIG_CLASSES)}"
        )
    size = {
        ours: field(reader, f"{kind}.{theirs}")
        for ours, theirs in {
            "hidden_size": "embedding_length",
            "intermediate_size": "feed_forward_length",
            "num_hidden_layers": "block_count",
            "num_attention_heads": "attention.head_count",
            "num_key_value_heads": "attention.head_count_kv",
            "max_position_embeddings": "context_length",
        }.items()
    }
    epsilon = field(reader, f"{kind}.attention.layer_norm_rms_epsilon")
    theta = field(reader, f"{kind}.rope.freq_base")
    return CONFIG_CLASSES[kind](
        architectures=[f"{kind.capitalize()}ForCausalLM"],
        vocab_size=len(field(reader, "tokenizer.ggml.tokens")),
        rms_norm_eps=float(f"{epsilon:.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=all(tensor.name != "output.weight" for tensor in reader.tensors),
        dtype="bfloat16",
        **size,
        **_special_ids(reader),
    )


def _special_ids(reader: gguf.GGUFReader) -> dict[str, int | None]:
    return {
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": field(reader, "tokenizer.ggml.padding_token_id"),
    }


def read_weights(
    reader: gguf.GGUFReader, config: Qwen2Config | LlamaConfig
) -> dict[str, torch.Tensor]:
    """Return every parameter of the model in bf16, under the model library's names.

    Which ones there must be, and their shapes, is asked of the model itself, built on the meta
    device (shapes without memory). Raises if the file lacks one or holds one more.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    architecture = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}[config.model_type]
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    weights = {}
    for name, parameter in model.named_parameters():
        tensor = stored.pop(names.get_name(name, try_suffixes=(".weight", ".bias")), None)
        if tensor is None:
            raise InsideGenerateError(f"the GGUF file lacks {name}; it is another model's")
        weights[name] = unpack_tensor(name, tensor, config).reshape(parameter.shape)
    if stored:
        raise InsideGenerateError(f"the GGUF file holds more than the model: {', '.join(stored)}")
    return weights


def unpack_tensor(
    name: str, tensor: gguf.ReaderTensor, config: Qwen2Config | LlamaConfig
) -> torch.Tensor:
    """Return one weight, dequantised to fp32, then rounded to bf16, rows in the model's order."""
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    if config.model_type == "llama" and "q_proj" in name:
        values = pairs_to_halves(values, config.num_attention_heads)
    if config.model_type == "llama" and "k_proj" in name:
        values = pairs_to_halves(values, config.num_key_value_heads)
    return torch.tensor(values).to(torch.bfloat16)


def pairs_to_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Reorder the rows of a query or key matrix, [H · D, hidden], within each head.

    Rotary embedding turns D/2 pairs of numbers. Llama's GGUF files keep the two of a pair in
    rows 2i and 2i + 1, as llama.cpp turns them; the model library turns rows i and i + D/2.
    """
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _save_weights(weights: dict[str, torch.Tensor], path: Path) -> None:
    try:
        save_file(weights, path, {"format": "pt"})
    except SafetensorError as error:  # it tells a full disk only in words
        if "os error 28" in str(error):
            raise OSError(errno.ENOSPC, "no space left on device", str(path)) from error
        raise
    path.chmod(0o644)  # the writer lets nobody else read it, and models may be shared
