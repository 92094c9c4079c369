"""The roofline: work for each byte read against work a second, under a machine's two ceilings."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from inside_generate.ceilings import Ceilings
from inside_generate.guards import check_numbers
from inside_generate.plots.style import DECODE, INK, PREFILL, write_beside

Points = Mapping[str, tuple[float, float]]  # label → FLOP a byte, GFLOP/s
_LOOKS = {"prefill": (PREFILL, "o"), "decode": (DECODE, "s")}


def plot_roofline(
    ceilings: Ceilings, phases: Mapping[str, Points], *, ax: Axes | None = None
) -> Axes:
    """Draw measured points of each phase under the two ceilings, both axes logarithmic.

    The first and the last point of a phase carry their label. The names "prefill" and "decode" have
    their colours on every page.
    """
    points = [point for labelled in phases.values() for point in labelled.values()]
    check_numbers("points", [number for point in points for number in point], 2, low=1e-9)
    intensities = [intensity for intensity, _ in points]
    low, high = min(intensities) / 3, max(*intensities, ceilings.ridge_flop_per_byte) * 6
    ax = ax or plt.subplots(figsize=(5.4, 3.8))[1]
    _draw_roof(ax, ceilings, low, high)
    for name, labelled in phases.items():
        _draw_phase(ax, name, labelled)
    ax.set(xscale="log", yscale="log", xlim=(low, high))
    rates = [rate for _, rate in points] + [ceilings.gflop_per_s(low)]
    ax.set_ylim(min(rates) / 8, ceilings.matmul_gflop_per_s * 4)
    ax.set(xlabel="FLOP for each byte read", ylabel="GFLOP/s")
    ax.set_title("Two ceilings, and what two phases reach")
    return ax


def _draw_roof(ax: Axes, ceilings: Ceilings, low: float, high: float) -> None:
    ridge = ceilings.ridge_flop_per_byte
    x = np.array([low, ridge, high])
    ax.plot(x, [ceilings.gflop_per_s(intensity) for intensity in x], color=INK)
    flat = f"matrix products: {ceilings.matmul_gflop_per_s:,.0f} GFLOP/s"
    slope = f"memory: {ceilings.memory_gb_per_s:,.0f} GB/s"
    top = (high, ceilings.matmul_gflop_per_s)
    write_beside(ax, flat, top, (-2, 6), ha="right", va="bottom")
    middle = float(np.sqrt(low * ridge))
    ax.annotate(
        slope,
        (middle, ceilings.gflop_per_s(middle)),
        (0.02, 0.74),
        textcoords="axes fraction",
        arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.8, "relpos": (0.5, 0)},
        color=INK,
        fontsize=10,
    )


def _draw_phase(ax: Axes, name: str, labelled: Points) -> None:
    colour, marker = _LOOKS.get(name, (INK, "^"))
    x, y = zip(*labelled.values(), strict=True)
    ax.plot(x, y, marker, linestyle=":", linewidth=1, color=colour)
    first, last = next(iter(labelled)), list(labelled)[-1]
    write_beside(ax, f"{name}\n{first}", labelled[first], (-4, -7), color=colour, va="top")
    if last != first:
        write_beside(ax, last, labelled[last], (8, -2), color=colour, va="top")
