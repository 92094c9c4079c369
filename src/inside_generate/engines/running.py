"""An engine at work on a model: start it, let it answer, feed it given tokens, end it.

What it leaves to others: the environments (`install`), the process (`child`), and what is done
inside the engine's own Python (`worker`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, PretrainedConfig

from inside_generate.engines.child import Child
from inside_generate.engines.errors import EngineError
from inside_generate.engines.gguf_file import quantised_file, weights_file
from inside_generate.engines.install import engine_directory, installed_package, python_of
from inside_generate.engines.kinds import Kind, find_kind, install_command
from inside_generate.errors import in_a_line, shown
from inside_generate.guards import check_ids_in_a_row, check_numbers, check_sizes
from inside_generate.home import home
from inside_generate.quiet import quiet

CONTEXT = 2048  # positions that an engine has room for, prompt and answer together
SHORTEST_S = 1e-9  # no engine makes a token in less
TIMEOUT_S = 600.0  # for each answer; vLLM compiles while it loads


@dataclass(frozen=True)
class EngineRun:
    """One greedy answer, with the seconds that a user of the engine waits."""

    ids: list[int]
    ttft_s: float  # prompt handed over → first token
    step_seconds: list[float]  # of each decode step: one fewer than ids


class Engine:
    """A loaded engine. Its prefix cache is off: each answer begins with a whole prefill."""

    def __init__(self, child: Child, config: PretrainedConfig, scratch: Path, timeout_s: float):
        self.name = child.name
        self.version = ""  # package and version, once it is loaded
        self.config = config
        self.context = min(CONTEXT, int(config.max_position_embeddings))
        self._child, self._scratch, self._timeout_s = child, scratch, timeout_s

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Return what the worker answers within the time that is allowed."""
        return self._child.ask(self._timeout_s, do=do, **request)

    def answer(self, prompt_ids: list[int], new_tokens: int) -> EngineRun:
        """Let the engine run freely: greedy, no penalties, no stop at EOS.

        Its own loop is timed inside its process. Nothing is warmed up here: call it before.
        """
        check_sizes(1, new_tokens=new_tokens)
        prompt = self._checked("prompt_ids", prompt_ids, new_tokens)
        reply = self.ask("answer", prompt_ids=prompt, new_tokens=new_tokens)
        try:
            ids = check_ids_in_a_row("ids", reply["ids"])
            given = [reply["ttft_s"], *reply["step_seconds"]]
            seconds = check_numbers("times", given, new_tokens, low=0, high=self._timeout_s)
        except (ValueError, LookupError, TypeError) as error:
            raise self._rubbish(in_a_line(error)) from error
        if not len(ids) == len(seconds) == new_tokens:
            raise self._rubbish(f"{len(ids)} ids and {len(seconds)} times for {new_tokens} tokens")
        if new_tokens > 1 and sum(seconds[1:]) < SHORTEST_S:  # rates are divided by it
            raise self._rubbish(f"{new_tokens - 1} decode steps in {sum(seconds[1:]):g} s")
        return EngineRun(ids, seconds[0], seconds[1:])

    def forced(self, prompt_ids: list[int], ids: list[int]) -> torch.Tensor:
        """Feed the prompt, then ``ids`` one by one; return the logits that score each: [T, V] fp32.

        Row 0 comes from the prefill, every other from a decode step; the last id is never fed.
        """
        given = check_ids_in_a_row("ids", ids)
        check_sizes(1, number_of_ids=len(given))
        prompt = self._checked("prompt_ids", prompt_ids, len(given))
        self._checked("ids", given, 0)
        file = self._scratch / "logits.npy"
        self.ask("forced", prompt_ids=prompt, ids=given, file=str(file))
        try:
            logits = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise self._rubbish(in_a_line(error)) from error
        finally:
            file.unlink(missing_ok=True)
        if (logits.shape, logits.dtype) != ((len(given), self.config.vocab_size), np.float32):
            raise self._rubbish(f"logits {logits.shape} in {logits.dtype}")
        return torch.from_numpy(logits)

    def memory_bytes(self) -> int:
        """Return the main memory of the engine's process, weights mapped from disk included."""
        return self._child.memory_bytes()

    def _checked(self, name: str, ids: list[int], room: int) -> list[int]:
        row = check_ids_in_a_row(name, ids)
        check_sizes(1, **{f"number of {name}": len(row)})
        if len(row) + room > self.context:
            raise ValueError(
                f"{len(row)} tokens and {room} more do not fit: {self.name} was started with room "
                f"for {self.context}"
            )
        if wrong := [token_id for token_id in row if not 0 <= token_id < self.config.vocab_size]:
            raise ValueError(f"token id {wrong[0]} is not one of the {self.config.vocab_size}")
        return row

    def _rubbish(self, what: str) -> EngineError:
        return EngineError(f"{self.name} answered with something else than was asked: {what}")


@contextlib.contextmanager
def start(
    name: str,
    model_folder: Path,
    threads: int,
    quantised: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Engine]:
    """Load a model of this disk into an engine; end its process in any case.

    ``quantised`` (llama.cpp only) loads the same weights as Q4_K_M, a mixture of four bits and
    more each. Whatever the engine does not do within ``timeout_s`` is an ``EngineError``, and so
    is whatever goes wrong.
    """
    kind = find_kind(name)
    check_sizes(1, threads=threads)
    if quantised and not kind.reads_gguf:
        raise ValueError(f"{name} runs the weights as they are: no quantised form of it here")
    if installed_package(name) is None:
        raise EngineError(f"{name} is not installed; type `{install_command(name)}`")
    config = _config(Path(model_folder))
    with tempfile.TemporaryDirectory(prefix="inside_generate_") as scratch:
        child = Child(name, command(kind), surroundings(kind, threads), Path(scratch))
        try:
            engine = Engine(child, config, Path(scratch), timeout_s)
            _load(engine, kind, Path(model_folder), threads, quantised)
            yield engine
        finally:
            child.end()


def _load(engine: Engine, kind: Kind, folder: Path, threads: int, quantised: bool) -> None:
    if kind.reads_gguf:
        weights = weights_file(folder, engine.config)
        if quantised:

            def quantise(source: Path, target: Path) -> None:
                engine.ask("quantise", source=str(source), target=str(target), threads=threads)

            weights = quantised_file(weights, quantise)
        settings = {"weights": str(weights)}
    else:
        settings = {"folder": str(folder), "dtype": stored_dtype(engine.config)}
    reply = engine.ask("load", threads=threads, context=engine.context, **settings)
    engine.version = str(reply.get("version", "unknown"))


def command(kind: Kind) -> list[str]:
    """Return what starts an engine's worker: its own Python, cut off from the reader's paths."""
    worker = kind.worker_file.with_name("worker.py")
    return [str(python_of(kind.name)), "-I", str(worker), str(kind.worker_file)]


def surroundings(kind: Kind, threads: int) -> dict[str, str]:
    """Return the environment variables that an engine is started with."""
    settings = {
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(home() / "engines" / "cache" / "inductor"),
        "VLLM_CACHE_ROOT": str(home() / "engines" / "cache"),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # in the worker's process, where steps can be timed
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_AOT_COMPILE": "0",  # 0.32 cannot read back what it compiles so
    }
    # vLLM's own advice for a CPU; it cannot do so itself for a process that runs already.
    openmp = engine_directory(kind.name) / "lib" / "libiomp5.so"
    if openmp.is_file():
        settings["LD_PRELOAD"] = ":".join(filter(None, [str(openmp), os.getenv("LD_PRELOAD")]))
        settings["KMP_BLOCKTIME"] = "5"  # ms that idle threads keep a core from others
    return settings


def stored_dtype(config: PretrainedConfig) -> str:
    """Return the number format of the weights as their config names it."""
    return str(config.dtype or "auto").removeprefix("torch.")


def _config(folder: Path) -> PretrainedConfig:
    try:
        with quiet():
            return AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # anything may be wrong with a folder from anywhere
        raise EngineError(
            f"cannot read the config of {shown(str(folder))}: {in_a_line(error)}"
        ) from error
