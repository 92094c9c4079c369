"""The small model, whose Q and K change their order, as a GGUF file: read back bit for bit."""

import gguf
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

from inside_generate import InsideGenerateError, find
from inside_generate.checkpoints import SMALL, WEIGHTS
from inside_generate.engines.gguf_file import write
from inside_generate.getting.unpack import read_weights


def test_the_small_model_is_in_its_gguf_file_bit_for_bit(tmp_path):
    try:
        folder = find(SMALL)
    except InsideGenerateError as error:
        pytest.skip(str(error))
    config = AutoConfig.from_pretrained(folder)
    write(folder, config, tmp_path / "small.gguf")
    reader = gguf.GGUFReader(tmp_path / "small.gguf")
    ours, theirs = load_file(folder / WEIGHTS), read_weights(reader, config)
    assert set(theirs) == set(ours)
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    matrices = [tensor for tensor in reader.tensors if len(tensor.shape) > 1]
    assert {tensor.tensor_type.name for tensor in matrices} == {"BF16"}
