"""A book of two tiny notebooks, made on the spot, for the tests of how books are made.

Shared by tiers: the pipeline is the real one, only the lessons and the model are small.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from safetensors.torch import save_file

ROOT = Path(__file__).parents[1]
TOC = """\
format: jb-book
root: book/index
chapters:
  - file: notebooks/one
  - file: notebooks/two
"""
PLOT = """\
import matplotlib.pyplot as plt

plt.subplots()[1].plot([1, 2, 3]);"""
FIGURE = {"image": {"alt": "a line that rises"}, "figure": {"caption": "Up.", "name": "fig-up"}}
# What a run of a notebook leaves beside it, as far as pages show it.
RUN = {
    "seconds": 12.3,
    "peak_memory_bytes": 3 * 1024**3 // 2,
    "model": "some-model",
    "place": "float32 on cpu: a processor",
    "date": "2026-11-29T10:00:00+00:00",
}
WIDGET = "import ipywidgets\n\nipywidgets.IntSlider()"


def write_notebook(path: Path, *cells) -> None:
    """Write a notebook whose cells keep their ids, so that the same cells make the same file."""
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=list(cells), metadata={"kernelspec": kernel}), path)


def make_book(root: Path) -> Path:
    """Lay out a whole little book below root, with the real settings and the real machinery."""
    for folder in (".ci", "notebooks", "src/inside_generate", "model"):
        (root / folder).mkdir(parents=True)
    for name in ("_config.yml", "requirements.txt", ".ci/constraints.txt"):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "book", root / "book", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "book/index.md").write_text("# A little book\n")
    (root / "_toc.yml").write_text(TOC)
    (root / "src/inside_generate/core.py").write_text("ANSWER = 42\n")
    write_notebook(
        root / "notebooks/one.ipynb",
        new_markdown_cell("# One\n\nIt says $a^2$, and goes on in [two](two.ipynb)."),
        new_code_cell("import sys\n\nprint(sys.prefix)"),
        new_code_cell(PLOT, metadata={"mystnb": FIGURE}),
        new_code_cell(WIDGET, metadata={"tags": ["live"]}),
        new_code_cell("'a solution'", metadata={"tags": ["solution"]}),
    )
    write_notebook(root / "notebooks/two.ipynb", new_markdown_cell("# Two"), new_code_cell("1 + 1"))
    make_model(root / "model")
    return root


def make_model(folder: Path) -> None:
    """Write what looks like a whole checkpoint; no lesson of a little book loads it."""
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    (folder / "tokenizer.json").write_text("{}")
    save_file({"lm_head.weight": torch.zeros(1)}, folder / "model.safetensors")


@dataclass(frozen=True)
class Build:
    """What one call of book/build.py did."""

    status: int
    said: str
    ran: tuple[str, ...]  # the notebooks that ran through, then those that failed


def build(root: Path, *options: str, **settings: str) -> Build:
    """Call book/build.py on a little book, as `make` would."""
    command = [sys.executable, ROOT / "book/build.py", "--root", root, *options]
    around = os.environ | {"INSIDE_GENERATE_MODEL": str(root / "model"), "NO_COLOR": "1"} | settings
    around.pop("PYTHONDONTWRITEBYTECODE", None)  # what Python leaves lying about must not matter
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    lines = re.findall(r"::(\w+)\.ipynb (passed|failed) in", said)
    ran = [name for wanted in ("passed", "failed") for name, how in lines if how == wanted]
    return Build(done.returncode, said, tuple(ran))
