"""Which tensors a piece of code makes, how many bytes are alive at once, and the most there were.

An allocator's counters exist on a GPU only; this counts tensors instead, and so works on every
device. What it leaves out: what an operation uses inside itself and frees before it returns, the
allocator's rounding, and all that was there before (weights, inputs).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """Counts the memory of tensors made inside the ``with`` block, as they come and go.

    Views share the memory of what they look at and cost nothing. ``live_bytes`` goes on falling
    after the block as its tensors are freed; ``peak_bytes`` stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = 0
        self.peak_bytes = 0
        self._known: dict[int, tuple[weakref.ref[torch.UntypedStorage], int]] = {}

    def reset_peak(self) -> None:
        """Start the peak again from what is alive now. Nothing is freed by this."""
        self.peak_bytes = self.live_bytes

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        for storage in _storages((args, kwargs)):
            self._meet(storage, 0)  # it was there before; its views are not new either
        result = func(*args, **(kwargs or {}))
        for storage in _storages(result):
            self._meet(storage, storage.nbytes())
        return result

    def _meet(self, storage: torch.UntypedStorage, new_bytes: int) -> None:
        key = storage._cdata
        if key not in self._known:
            self._known[key] = weakref.ref(storage, lambda _: self._part(key)), new_bytes
            self.live_bytes += new_bytes
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _part(self, key: int) -> None:
        _, freed = self._known.pop(key)
        self.live_bytes -= freed


def _storages(tree: Any) -> Iterator[torch.UntypedStorage]:
    """Yield the memory behind each tensor in nested lists, tuples and dicts."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            yield leaf.untyped_storage()
