"""A model folder -> a GGUF file of the same weights, for llama.cpp.

What it knows: how such a file names and stores them. Matrices keep their numbers bit for bit;
vectors (norms, biases) become fp32, which changes no value. No tokenizer goes in: engines are fed
ids. What it leaves to others: the way back (`getting.unpack`), quantising (the engine itself).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np
import torch
from filelock import FileLock
from safetensors import safe_open
from transformers import PretrainedConfig

from inside_generate.engines.errors import EngineError
from inside_generate.getting.integrity import sha256
from inside_generate.getting.layout import weight_files
from inside_generate.home import home

FORM = 1  # goes up when the same weights would be written otherwise
ARCHITECTURES = {"qwen2": gguf.MODEL_ARCH.QWEN2, "llama": gguf.MODEL_ARCH.LLAMA}
TYPES = {
    torch.bfloat16: gguf.GGMLQuantizationType.BF16,
    torch.float16: gguf.GGMLQuantizationType.F16,
    torch.float32: gguf.GGMLQuantizationType.F32,
}
FILE_TYPES = {
    torch.bfloat16: gguf.LlamaFileType.MOSTLY_BF16,
    torch.float16: gguf.LlamaFileType.MOSTLY_F16,
    torch.float32: gguf.LlamaFileType.ALL_F32,
}
NO_WEIGHT = "rotary_emb.inv_freq"  # old checkpoints hold it; it follows from the config


def weights_file(folder: Path, config: PretrainedConfig) -> Path:
    """Return the GGUF file of a model folder, written unless these very weights are there."""
    check_config(config)
    path = _place(folder) / f"{_key(folder)}.gguf"
    _appears(path, lambda partial: write(folder, config, partial))
    _remove_outdated(path)
    return path


def quantised_file(weights: Path, quantise: Callable[[Path, Path], None]) -> Path:
    """Return the quantised file beside ``weights``; ``quantise(source, target)`` makes it."""
    path = weights.with_suffix(".q4_k_m.gguf")
    _appears(path, lambda partial: quantise(weights, partial))
    return path


def check_config(config: PretrainedConfig) -> None:
    """Raise unless llama.cpp computes from such a file what the config asks for."""
    kind = config.model_type
    if kind not in ARCHITECTURES:
        raise EngineError(f"no GGUF of a {kind} model is written here, only {_known()}")
    wrong = {
        "hidden_act": getattr(config, "hidden_act", "silu") != "silu",
        "rope_parameters": config.rope_parameters.get("rope_type", "default") != "default",
        "use_sliding_window": bool(getattr(config, "use_sliding_window", False)),
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            value = getattr(config, name)
            raise EngineError(f"no GGUF is written of a model with {name} {value!r}")


def write(folder: Path, config: PretrainedConfig, path: Path) -> None:
    """Write the file: its head, then one tensor after another, so that one is in memory."""
    names = gguf_names(folder, config)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHITECTURES[config.model_type]])
    try:
        first = next(tensor.dtype for _, tensor in _tensors(folder, names) if tensor.dim() > 1)
        _write_head(writer, config, first)
        for name, tensor in _tensors(folder, names):
            data, kind = stored(name, tensor, config)
            writer.add_tensor_info(names[name], data.shape, data.dtype, data.nbytes, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for name, tensor in _tensors(folder, names):
            writer.write_tensor_data(stored(name, tensor, config)[0])
    finally:
        writer.close()


def gguf_names(folder: Path, config: PretrainedConfig) -> dict[str, str]:
    """Return the file's name of each weight in the folder; a tied output matrix is not stored."""
    table = gguf.get_tensor_name_map(ARCHITECTURES[config.model_type], config.num_hidden_layers)
    names = {}
    for file in weight_files(folder):
        with safe_open(file, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (it is no dict)
                if name.endswith(NO_WEIGHT) or (
                    name == "lm_head.weight" and config.tie_word_embeddings
                ):
                    continue
                names[name] = table.get_name(name, try_suffixes=(".weight", ".bias"))
                if names[name] is None:
                    raise EngineError(f"{folder} holds {name}, for which a GGUF has no place")
    return names


def stored(
    name: str, tensor: torch.Tensor, config: PretrainedConfig
) -> tuple[np.ndarray, gguf.GGMLQuantizationType]:
    """Return a weight's bytes as the file keeps them, [rows, bytes of a row], and their type."""
    if tensor.dtype not in TYPES:
        raise EngineError(f"{name} is in {tensor.dtype}; a GGUF is written of {_known_types()}")
    if config.model_type == "llama" and ".q_proj." in name:
        tensor = halves_to_pairs(tensor, config.num_attention_heads)
    if config.model_type == "llama" and ".k_proj." in name:
        tensor = halves_to_pairs(tensor, config.num_key_value_heads)
    if tensor.dim() == 1:
        tensor = tensor.float()
    return tensor.contiguous().view(torch.uint8).numpy(), TYPES[tensor.dtype]


def halves_to_pairs(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder the rows of a query or key weight, [H · D, …], within each head.

    Rotary embedding turns D/2 pairs of numbers: rows i and i + D/2 in the model library, rows 2i
    and 2i + 1 in Llama's GGUF files.
    """
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(rows.shape)


def _write_head(writer: gguf.GGUFWriter, config: PretrainedConfig, dtype: torch.dtype) -> None:
    heads = config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_rope_dimension_count(head_size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    writer.add_file_type(FILE_TYPES[dtype])


def _tensors(folder: Path, names: dict[str, str]) -> Iterator[tuple[str, torch.Tensor]]:
    for file in weight_files(folder):
        with safe_open(file, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118
                if name in names:
                    yield name, weights.get_tensor(name)


def _key(folder: Path) -> str:
    """Return a short sum over weights, config and form: another file, another key."""
    files = [*weight_files(folder), folder / "config.json"]
    sums = "".join(sha256(file) for file in files)
    return hashlib.sha256(f"{FORM} {sums}".encode()).hexdigest()[:16]


def _place(folder: Path) -> Path:
    """Return where the files of one model folder lie."""
    whole = folder.resolve()
    place = hashlib.sha256(str(whole).encode()).hexdigest()[:8]
    return home() / "engines" / "weights" / f"{whole.name}-{place}"


def _appears(path: Path, make: Callable[[Path], None]) -> None:
    """Have a file made beside its place and moved there whole, by one process at a time."""
    if path.is_file():
        return
    lock = home() / "locks" / f"engine-weights-{path.name}.lock"
    try:
        for needed in (path, lock):
            needed.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            if not path.is_file():
                _make(path, make)
    except OSError as error:
        raise EngineError(
            f"cannot write {path} ({error.strerror or error}); make room, or set "
            "INSIDE_GENERATE_HOME to a folder that can be written"
        ) from error


def _make(path: Path, make: Callable[[Path], None]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        make(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _remove_outdated(path: Path) -> None:
    """Remove what was written of weights that this folder held before."""
    for other in path.parent.glob("*.gguf"):
        if not other.name.startswith(path.stem):
            with contextlib.suppress(OSError):  # it may be in use
                other.unlink()


def _known() -> str:
    return " and ".join(ARCHITECTURES)


def _known_types() -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in TYPES)
