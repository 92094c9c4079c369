"""Run by an engine's own Python: ``python worker.py llama_cpp_worker.py``.

Reads one JSON object a line and answers each with one: ``{"ok": …}`` or ``{"error": "…"}``. It
ends when its input does. What an engine prints goes to stderr, so that nothing comes between.
The second script drives one engine: ``load(**settings)`` gives an object with ``version``,
``answer(prompt_ids, new_tokens)`` and ``forced(prompt_ids, ids)``; it may have ``quantise``.
Only the standard library, NumPy and that engine can be imported here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from types import ModuleType
from typing import Any


def main(script: str) -> None:
    """Answer requests until there are no more."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull) as nothing:  # noqa: PTH123 (a path's own open() knows no device file)
        os.dup2(nothing.fileno(), 0)  # processes that the engine starts shall not read requests
    os.dup2(2, 1)
    driver = imported(script)
    running: list[Any] = []  # the engine, once it is loaded
    for line in requests:
        try:
            reply: dict[str, Any] = {"ok": perform(driver, running, **json.loads(line))}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def imported(script: str) -> ModuleType:
    """Return a script as a module, without its folder on the path: others lie in there."""
    spec = importlib.util.spec_from_file_location("driver", script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def perform(
    driver: ModuleType, running: list[Any], do: str, file: str = "", **settings: Any
) -> dict[str, Any]:
    """Do what one line asks for, and return what goes back."""
    if do == "load":
        running.append(driver.load(**settings))
        return {"version": running[0].version}
    if do == "quantise":
        driver.quantise(**settings)
        return {}
    if do == "answer":
        ids, ttft_s, step_seconds = running[0].answer(**settings)
        return {"ids": ids, "ttft_s": ttft_s, "step_seconds": step_seconds}
    if do == "forced":
        import numpy

        numpy.save(file, running[0].forced(**settings))  # [T, V] float32
        return {}
    raise ValueError(f"nothing is called {do!r}")


if __name__ == "__main__":
    main(sys.argv[1])
