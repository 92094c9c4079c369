"""Runs the code of one notebook in this Python, cell after cell: `python book/gpu_cells.py FILE`.

For machines without Jupyter: nothing is drawn on a page, no output is kept, and cells that only
show a widget are left out. What counts is that every cell runs and every assertion holds. Ends with
0 when they did, with 1 and a traceback when not, and with 3 when a package is missing.
"""

import json
import linecache
import os
import sys
import traceback
import types
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gpu_peak

MISSING = 3


def code_cells(notebook: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, source and tags of each cell of code that does not need a page."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    for number, cell in enumerate(cells):
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code" and "live" not in tags:
            yield number, "".join(cell["source"]), tags


def run_cell(name: str, source: str, names: dict[str, Any]) -> None:
    """Run one cell; a traceback, and code that asks for its own source, find its lines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), names)


def run_notebook(notebook: Path) -> None:
    """Run all cells in one namespace. An error is raised where its cell does not promise one."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source, tags in code_cells(notebook):
        try:
            run_cell(f"{notebook.name}[{number}]", source, names)
        except Exception:
            if "raises-exception" not in tags:
                raise
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def do_without_a_page() -> None:
    """Put something in the place of what Jupyter draws with: there is no page here."""
    os.environ["MPLBACKEND"] = "Agg"
    stand_in("matplotlib_inline.backend_inline", set_matplotlib_formats=lambda *_: None)
    if find_spec("IPython") is None:
        stand_in("IPython.display", display=print, HTML=str)


def stand_in(module: str, **names: Any) -> None:
    """Make ``module`` importable, with these names in it."""
    package = module.partition(".")[0]
    if find_spec(package) is None:
        sys.modules[package] = types.ModuleType(package)
    sys.modules[module] = types.ModuleType(module)
    vars(sys.modules[module]).update(names)


def is_ours(module: str | None) -> bool:
    """Return whether a missing module is no package to install but a mistake in a lesson."""
    return (module or "inside_generate").split(".")[0] == "inside_generate"


def main(argument: str) -> int:
    """Run the notebook in its own folder and return the exit code."""
    notebook = Path(argument).resolve()
    os.chdir(notebook.parent)
    do_without_a_page()
    try:
        peak = gpu_peak.watch()
        run_notebook(notebook)
    except Exception as error:
        traceback.print_exc()
        if isinstance(error, ModuleNotFoundError) and not is_ours(error.name):
            print(f"it needs {error.name}, which is not installed")
            return MISSING
        return 1
    if (mib := peak()) is not None:
        print(gpu_peak.line(mib))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
