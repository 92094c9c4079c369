"""Which tensors a piece of code makes, how many bytes are alive at once, and the most there were.

An allocator's counters exist on a GPU only; this counts tensors instead, and so works on every
device. What it leaves out: what an operation uses inside itself and frees before it returns, the
allocator's rounding, all that was there before (weights, inputs), what other threads make, memory
that no operation makes (a file's, a buffer's), and tensors without plain memory (sparse, ``meta``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FROM_PYTHON = torch.ops.aten.lift_fresh.default  # how ``torch.tensor`` hands in what it has made


@dataclass(frozen=True)
class Alive:
    """Tensors of one kind that were alive together."""

    count: int
    made_by: str  # the operation, by torch's name for it
    shape: tuple[int, ...]  # of one of them, when it was made
    all_bytes: int  # of all of them


@dataclass
class _Known:
    """Memory that has been met, and how much of it is counted."""

    storage: weakref.ref[torch.UntypedStorage]
    old_bytes: int  # it had them before
    made_by: str = ""
    shape: tuple[int, ...] = ()
    new_bytes: int = 0


class LiveTensors(TorchDispatchMode):
    """Counts the memory of tensors made inside the ``with`` block, as they come and go.

    Views share the memory of what they look at and cost nothing. ``live_bytes`` goes on falling
    after the block as its tensors are freed; ``peak_bytes`` stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = 0
        self.peak_bytes = 0
        self._known: dict[int, _Known] = {}
        self._at_peak: list[tuple[str, tuple[int, ...], int]] = []

    def reset_peak(self) -> None:
        """Start the peak again from what is alive now. Nothing is freed by this."""
        self._new_peak()

    def at_peak(self) -> list[Alive]:
        """Return what was alive at the peak: operation, shape and bytes, the most bytes first."""
        groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for made_by, shape, size in self._at_peak:
            groups.setdefault((made_by, shape), []).append(size)
        kinds = [Alive(len(sizes), *kind, sum(sizes)) for kind, sizes in groups.items()]
        return sorted(kinds, key=lambda kind: -kind.all_bytes)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        for storage in map(torch.Tensor.untyped_storage, _tensors((args, kwargs))):
            # What ``torch.tensor`` hands in is new; an array of NumPy's was there before.
            made_just_now = func is FROM_PYTHON and storage.resizable()
            self._meet(storage, 0 if made_just_now else storage.nbytes())
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors((args, kwargs, result)):  # ``out=`` and ``resize_`` make room
            self._meet(tensor.untyped_storage(), 0)
            self._count(tensor, str(func))
        return result

    def _meet(self, storage: torch.UntypedStorage, old_bytes: int) -> None:
        key = storage._cdata
        if key not in self._known:
            self._known[key] = _Known(weakref.ref(storage, lambda _: self._part(key)), old_bytes)

    def _count(self, tensor: torch.Tensor, made_by: str) -> None:
        storage = tensor.untyped_storage()
        known = self._known[storage._cdata]
        new_bytes = max(0, storage.nbytes() - known.old_bytes)
        if new_bytes > known.new_bytes:
            known.made_by, known.shape = _short(made_by), tuple(tensor.shape)
        self.live_bytes += new_bytes - known.new_bytes
        known.new_bytes = new_bytes
        if self.live_bytes > self.peak_bytes:
            self._new_peak()

    def _new_peak(self) -> None:
        self.peak_bytes = self.live_bytes
        counted = (known for known in self._known.values() if known.new_bytes)
        self._at_peak = [(known.made_by, known.shape, known.new_bytes) for known in counted]

    def _part(self, key: int) -> None:
        self.live_bytes -= self._known.pop(key).new_bytes


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    """Yield each plain tensor in nested lists, tuples and dicts."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and not leaf.is_meta:
            yield leaf


def _short(name: str) -> str:
    """Return an operation's name without its library and its variant: aten.add.Tensor, add."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else name
