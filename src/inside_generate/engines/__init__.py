"""Other people's engines on the same weights, as comparisons for ``bench``.

None is ever imported into this process. Each has an environment of its own (`install`), is driven
there by a small script (`worker`, and one ``*_worker`` for each engine), and answers line by line
(`child`); `running` is what the rest of the course sees of it. llama.cpp wants its own file format,
which `gguf_file` writes.
"""

from importlib import import_module
from typing import Any

_COMES_FROM = {
    "Engine": "running",
    "EngineError": "errors",
    "EngineRun": "running",
    "device_of": "install",
    "installed": "install",
    "start": "running",
}

__all__ = sorted(_COMES_FROM)


def __getattr__(name: str) -> Any:
    if name not in _COMES_FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_COMES_FROM[name]}"), name)
