"""May this directory be loaded? What a model in Hugging Face layout must hold, and must not.

What it knows: the files of a checkpoint directory, and why two kinds of it are refused: pickles
can run anything while they are read, and ``auto_map`` asks for Python files of the checkpoint
to be run. What it leaves to others: reading the weights (`models`), sums (`integrity`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING

from inside_generate.errors import InsideGenerateError
from inside_generate.getting.integrity import check_safetensors

SETTINGS = ("generation_config.json", "tokenizer_config.json")  # broken ones are passed over
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "tekken.json")


def check_layout(directory: Path) -> None:
    """Raise with one line unless ``directory`` holds a whole checkpoint of a known kind."""
    config = _read_json(directory / "config.json")
    if "auto_map" in config and str(config.get("model_type")) not in CONFIG_MAPPING:
        raise InsideGenerateError(
            f"{directory} needs Python code of its own (auto_map in config.json), which is never "
            "run here; choose a model of an architecture that transformers knows"
        )
    if "transformers_weights" in config:
        raise InsideGenerateError(
            f"{directory} names weights of its own (transformers_weights in config.json), which "
            "would be loaded unchecked; take the line out and call the file model.safetensors"
        )
    choices = {name: str(value) for name, value in config.items() if "implementation" in name}
    if remote := [name for name, value in choices.items() if "/" in value]:
        raise InsideGenerateError(
            f"{directory} asks for code from a hub ({remote[0]} in config.json: "
            f"{choices[remote[0]]}), which is never run here; take the line out"
        )
    if (directory / "adapter_config.json").exists():
        raise InsideGenerateError(
            f"{directory} holds an adapter (adapter_config.json), which changes another model's "
            "weights; merge it into that model and save the whole"
        )
    for name in SETTINGS:
        if (directory / name).exists():
            _read_json(directory / name)
    for path in weight_files(directory):
        check_safetensors(path)
    if not any((directory / name).is_file() for name in VOCABULARIES):
        raise InsideGenerateError(
            f"{directory} has no tokenizer; put {VOCABULARIES[0]} beside the weights"
        )


def weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files with the weights: one, or the shards that an index names."""
    if (directory / "model.safetensors").is_file():
        return [directory / "model.safetensors"]
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        return _shards(directory, _read_json(index))
    pickles = sorted(path.name for pattern in PICKLES for path in directory.glob(pattern))
    if pickles:
        raise InsideGenerateError(
            f"{directory} holds its weights as pickles ({', '.join(pickles)}), which can run "
            "anything when read; only safetensors are loaded, so convert it first"
        )
    raise InsideGenerateError(f"{directory} has no model.safetensors; is the download complete?")


def _shards(directory: Path, index: dict[str, Any]) -> list[Path]:
    weight_map = index.get("weight_map")
    names = sorted(set(map(str, weight_map.values()))) if isinstance(weight_map, dict) else []
    if outside := [name for name in names if Path(name).name != name]:
        raise InsideGenerateError(
            f"{directory} names a file of weights outside itself ({outside[0]}); put it inside"
        )
    missing = [name for name in names if not (directory / name).is_file()]
    if missing or not names:
        raise InsideGenerateError(
            f"{directory} lacks {', '.join(missing) or 'the shards of its weights'}; "
            "download it again"
        )
    return [directory / name for name in names]


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InsideGenerateError(f"{path.parent} is not a model directory: it has no {path.name}")
    if not path.is_file():  # reading a pipe would wait for ever
        raise InsideGenerateError(f"{path} is no plain file")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InsideGenerateError(f"{path} cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise InsideGenerateError(f"{path} holds no JSON object")
    return content
