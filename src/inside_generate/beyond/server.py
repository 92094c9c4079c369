"""Starting a server of the model library on this machine, and ending it again.

Knows the options of ``transformers serve`` that the lesson needs: continuous batching, and how much
of a paged KV cache it gets. A reader's own server (vLLM, SGLang, …) takes its place where
``INSIDE_GENERATE_SERVER`` holds its address.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from inside_generate.beyond.children import check_seconds, child, wait_until
from inside_generate.beyond.client import models
from inside_generate.errors import InsideGenerateError
from inside_generate.guards import check_sizes

ADDRESS = "INSIDE_GENERATE_SERVER"
NEEDED = ("accelerate", "fastapi", "openai", "uvicorn")


@dataclass(frozen=True)
class Server:
    """A server's address, and whether it is ours: then model and memory are as asked for."""

    url: str
    ours: bool


@contextlib.contextmanager
def serving(
    model: str | Path,
    *,
    blocks: int,
    block_tokens: int,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    port: int | None = None,
    start_s: float = 180.0,
) -> Iterator[Server]:
    """Serve a model from this disk while the block lasts; only this machine can reach it.

    The KV cache has ``blocks`` blocks of ``block_tokens`` tokens. Raises ``InsideGenerateError``
    where the server does not start; whatever happens, it has ended when the block has.
    """
    check_sizes(1, blocks=blocks)
    check_sizes(4, block_tokens=block_tokens)  # the library's own least
    check_seconds("start_s", start_s)
    if address := os.environ.get(ADDRESS):
        try:
            models(address)
        except ValueError as error:  # what a reader has set is answered in one line
            raise InsideGenerateError(f"{ADDRESS}: {error}") from error
        yield Server(address.rstrip("/"), ours=False)
        return
    check_installed()
    port = free_port() if port is None else check_free(port)
    command = serve_command(str(model), port, blocks, block_tokens, dtype, device)
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="inside-generate-") as folder:
        log = Path(folder) / "log"
        with child(command, log, surroundings()) as process:
            wait_until(lambda: answers(url), process, log, start_s, "the server")
            yield Server(url, ours=True)


def serve_command(
    model: str, port: int, blocks: int, block_tokens: int, dtype: torch.dtype, device: str
) -> list[str]:
    """Return the command of a server with continuous batching."""
    return [
        *(sys.executable, "-m", "transformers.cli.transformers", "serve", model),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--device", device, "--dtype", str(dtype).removeprefix("torch.")),
        *("--continuous-batching", "--cb-num-blocks", str(blocks)),
        *("--cb-block-size", str(block_tokens), "--cb-max-batch-tokens", "512"),
    ]


def surroundings() -> dict[str, str]:
    """Return what is set for a server: it asks nothing of any network."""
    return {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
    }


def answers(url: str) -> bool:
    """Return whether a server has come up."""
    try:
        return bool(models(url, timeout_s=2))
    except InsideGenerateError:
        return False


def free_port() -> int:
    """Return a port of this machine that nobody uses just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def check_free(port: int) -> int:
    """Return the port, or raise where another program has it."""
    check_sizes(1, port=port)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            raise InsideGenerateError(
                f"port {port} cannot be used: another program has it, or there is no such port"
            ) from None
    return port


def check_installed() -> None:
    """Raise where a package that the server needs is missing, with what to type."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InsideGenerateError(
            f"a server needs {', '.join(missing)} as well; type `pip install -r requirements.txt`"
        )
