"""Loading a model from this machine's disk, and saying which one it is.

What it knows: how to load a directory without network, pickles or code from a checkpoint. What it
leaves to others: which directory a name stands for (`finding`), getting models (`fetch`), what a
directory must hold (`layout`, `integrity`), device and dtype (`device`).
"""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, WEIGHTS
from inside_generate.device import choose_device, choose_dtype, wanted_dtype
from inside_generate.errors import InsideGenerateError, in_a_line
from inside_generate.finding import find
from inside_generate.getting.hub import find_in_hub_cache
from inside_generate.getting.integrity import damage, read_manifest, sha256
from inside_generate.getting.layout import weight_files
from inside_generate.quiet import quiet

# A notebook's load cell may run twice: the same call gives the model that is still in memory,
# and nothing here keeps a model alive that nobody else holds.
_loaded: weakref.WeakValueDictionary[tuple[Any, ...], PreTrainedModel]
_loaded = weakref.WeakValueDictionary()
_tokenizers: weakref.WeakKeyDictionary[PreTrainedModel, PreTrainedTokenizerBase]
_tokenizers = weakref.WeakKeyDictionary()
_state_when_loaded: weakref.WeakKeyDictionary[PreTrainedModel, tuple[torch.device, torch.dtype]]
_state_when_loaded = weakref.WeakKeyDictionary()


def load(
    model: str | Path = "auto",
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """Return the tokenizer and the model, in eval mode, on the device, from this disk alone.

    Arguments as for ``find``, ``choose_device`` and ``choose_dtype``. While the model of an
    earlier call with the same arguments is alive, that call's two objects are returned.
    """
    target = choose_device(device)
    directory = find(model)
    number_format, _ = choose_dtype(dtype, target)
    # fp16 reaches 65504 only: where it was not asked for, the model must show that this is enough.
    on_trial = number_format is torch.float16 and wanted_dtype(dtype) == "auto"
    key = (directory, target, number_format, on_trial, *_stamps(directory))
    found = _loaded.get(key)
    if found is None or (found.device, found.dtype) != _state_when_loaded[found]:
        tokenizer, found = _load(directory, target, number_format)
        if on_trial and not has_finite_logits(found):
            found = found.float()
        _loaded[key], _tokenizers[found] = found, tokenizer
        _state_when_loaded[found] = found.device, found.dtype
    return _tokenizers[found], found.eval()


@torch.inference_mode()
def has_finite_logits(model: PreTrainedModel) -> bool:
    """Return whether a short forward gives numbers, and neither infinity nor NaN."""
    ids = torch.arange(8, device=model.device)[None] % model.config.vocab_size  # [1, 8]
    return bool(model(input_ids=ids).logits.isfinite().all())


def _stamps(directory: Path) -> list[tuple[int, int]]:
    """Return size and time of change of each file: another file, another model or tokenizer."""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return [(path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def _load(
    directory: Path, device: torch.device, dtype: torch.dtype
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    weights = {
        "use_safetensors": True,
        "output_loading_info": True,
        "ignore_mismatched_sizes": True,
    }
    part = "tokenizer"
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(directory, **local)
            part = "model"
            model, report = AutoModelForCausalLM.from_pretrained(
                directory, dtype=dtype, **weights, **local
            )
            model.config.return_dict = True  # the loop reads the parts of an output by their names
            model.to(device)
    except Exception as error:  # anything may be wrong with a directory from anywhere
        raise InsideGenerateError(
            f"cannot load the {part} of {directory}: {in_a_line(error)}"
        ) from error
    _check_report(report, directory)
    _check_finite(model, directory)
    return tokenizer, model


def _check_report(report: dict[str, Any], directory: Path) -> None:
    """Raise if weights and config do not fit: the library makes up or leaves out what is amiss."""
    mismatched = [name for name, *_ in report["mismatched_keys"]]
    unused = set(report["unexpected_keys"]) - {"lm_head.weight"}  # a copy of the tied embedding
    for wrong, names in (
        ("lacks", report["missing_keys"]),
        ("has misshapen", mismatched),
        ("holds more than the", unused),
    ):
        if names:
            raise InsideGenerateError(
                f"{directory} {wrong} weights of the model in its config.json: {len(names)}, such "
                f"as {min(names)}; download it again"
            )


def _check_finite(model: PreTrainedModel, directory: Path) -> None:
    """Raise if a weight is NaN or infinite: greedy choice would take such a logit for the best."""
    for name, parameter in model.named_parameters():
        if parameter.numel() and not torch.stack(parameter.detach().aminmax()).isfinite().all():
            raise InsideGenerateError(
                f"{directory} holds infinity or NaN in {name} as {model.dtype}; load it as float32 "
                "or download it again"
            )


@dataclass(frozen=True)
class Identity:
    """Which model really ran, for records and captions."""

    model_id: str
    revision: str | None  # hub commit; stand-in: sum of its GGUF; a path: sum of its weights
    name: str | None  # the key in CHECKPOINTS, for a model of the course
    directory: Path | None  # None for a model that was made in memory


def identity(model: PreTrainedModel) -> Identity:
    """Return what ``model`` was loaded from, told by the files and not by what was asked for."""
    directory = Path(model.name_or_path)
    if not model.name_or_path or not directory.is_dir():
        return Identity(f"{type(model).__name__} made in memory", None, None, None)
    manifest = read_manifest(directory)
    if manifest and _is_genuine(directory, manifest):
        name = manifest["name"] if manifest["name"] in CHECKPOINTS else None
        return Identity(str(manifest["model_id"]), str(manifest["revision"]), name, directory)
    reference = CHECKPOINTS[REFERENCE]
    if find_in_hub_cache(reference) == directory:
        return Identity(reference.model_id, reference.revision, reference.name, directory)
    return Identity(str(directory), _sum_of_weights(directory), None, directory)


def _is_genuine(directory: Path, manifest: dict[str, Any]) -> bool:
    """Return whether a manifest speaks of the weights beside it, and of the reference's rightly."""
    weights = manifest["files"].get(WEIGHTS)
    if weights is None or not isinstance(manifest["name"], str) or damage(directory):
        return False
    return manifest["name"] != REFERENCE or weights["sha256"] == CHECKPOINTS[REFERENCE].sha256


def _sum_of_weights(directory: Path) -> str:
    """Return the sha256 of the weights' file; of several, that of ``sha256sum *.safetensors``."""
    paths = weight_files(directory)
    if len(paths) == 1:
        return sha256(paths[0])
    lines = "".join(f"{sha256(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()
