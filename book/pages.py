"""Makes the pages: a copy of the sources with executed notebooks, then Jupyter Book over it.

Knows what a page leaves out and when the pages on disk still stand for their sources. It runs no
notebook: `notebook_runs.py` did that.
"""

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat.v4 import new_markdown_cell
from sphinx_external_toc.parsing import MalformedError, parse_toc_yaml

import recorded
from in_place import put_in_place
from notebook_runs import EXECUTED, is_source, read_record, sha256, versions

SOURCE = Path("_build/source")
NEXT = Path("_build/next")
HTML = Path("_build/html")
FIGURES = Path("book/figures.md")
MADE_FROM = Path("_build/pages.json")
GIB = 1024**3


class BookError(Exception):
    """Something is wrong with the book's sources: one line that says what and where."""


def documents(root: Path) -> list[Path]:
    """The files that the table of contents names, below root. BookError if one is missing."""
    try:
        names = list(parse_toc_yaml(root / "_toc.yml"))
    except MalformedError as error:
        raise BookError(f"_toc.yml: {error}") from None
    return [source_of(root, name) for name in names]


def source_of(root: Path, name: str) -> Path:
    """The notebook or Markdown file behind an entry of the table of contents."""
    for suffix in (".ipynb", ".md"):
        if (root / f"{name}{suffix}").is_file():
            return Path(f"{name}{suffix}")
    raise BookError(f"_toc.yml names {name}, but there is neither {name}.ipynb nor {name}.md")


def publish(
    root: Path,
    notebooks: Iterable[Path],
    settings: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Path:
    """Lay out afresh what the pages are made from, and return its folder.

    ``settings`` adds to the book's own settings what the publisher asks for.
    """
    source = root / SOURCE
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(root / "book", source / "book", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "_toc.yml", source)
    config = yaml.safe_load((root / "_config.yml").read_text("utf-8"))
    config["execute"]["execute_notebooks"] = "off"  # they have run
    config = settings(config)
    (source / "_config.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    runs = {path: read_record(root / EXECUTED / path) for path in notebooks}
    for path, run in runs.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        notebook = page_version(nbformat.read(root / EXECUTED / path, 4), path)
        notebook.cells.append(new_markdown_cell(run_note(run), id="run-note"))
        nbformat.write(notebook, source / path)
    if runs and (source / FIGURES).is_file():
        with (source / FIGURES).open("a", encoding="utf-8") as file:
            file.write(run_table(runs))
    for page, text in recorded.sections(root).items():
        if (source / page).is_file():
            with (source / page).open("a", encoding="utf-8") as file:
                file.write(text)
    return source


def run_note(run: Mapping[str, Any]) -> str:
    """What a page says about its own run, at its foot."""
    seconds, peak = run["seconds"], run["peak_memory_bytes"] / GIB
    with_what = f"with {run['model']}, by default in {run['place']}, on {run['date'][:10]}"
    return (
        f'<p class="ran">The last run of this page took {seconds:.0f} s and at most '
        f"{peak:.1f} GiB of memory, {with_what}.</p>"
    )


def run_table(runs: Mapping[Path, Mapping[str, Any]]) -> str:
    """The runs behind all pages, as a section of the page on figures."""
    first = next(iter(runs.values()))
    rows = [
        f"| [](../{path.as_posix()}) | {run['seconds']:.0f} "
        f"| {run['peak_memory_bytes'] / GIB:.1f} | {run['date'][:10]} |"
        for path, run in runs.items()
    ]
    head = ["| chapter | seconds | GiB at most | run on |", "|---|---|---|---|"]
    intro = f"These pages were made with {first['model']} in {first['place']}.\n"
    return "\n".join(["\n## The runs behind these pages\n", intro, *head, *rows, ""])


def page_version(notebook: Any, path: Path) -> Any:
    """The notebook as its page shows it: without widgets, with solutions folded, without clocks."""
    notebook.metadata.pop("widgets", None)
    notebook.cells = [cell for cell in notebook.cells if "live" not in tags(cell)]
    for number, cell in enumerate(notebook.cells):
        if shows_widget(cell):
            raise BookError(f"{path}: cell {number} shows a widget: tag it `live`, add a figure")
        cell.metadata.pop("execution", None)
        if "solution" in tags(cell) and cell.cell_type == "code":
            cell.metadata.tags = sorted({*tags(cell), "hide-cell"})
            cell.metadata.setdefault("mystnb", {})["code_prompt_show"] = "Code of a solution"
    return notebook


def tags(cell: Any) -> list[str]:
    """The tags of a cell."""
    return list(cell.metadata.get("tags", []))


def shows_widget(cell: Any) -> bool:
    """Whether a cell put out a widget, which needs a kernel to do anything."""
    return any(
        kind.startswith("application/vnd.jupyter.widget")
        for output in cell.get("outputs", [])
        for kind in output.get("data", {})
    )


def fingerprint(root: Path) -> str:
    """One SHA-256 over all that the pages are made from, and what they are made with."""
    # The extensions are run from there, and Python leaves behind what it compiled.
    files = sorted(path for path in (root / SOURCE).rglob("*") if is_source(path))
    parts = [f"{path.relative_to(root)} {sha256(path.read_bytes())}" for path in files]
    parts += [f"{name} {release}" for name, release in versions(root).items()]
    return sha256("\n".join(parts).encode())


def page_of(root: Path, document: Path) -> Path:
    """The HTML file of a document."""
    return root / HTML / document.with_suffix(".html")


def are_current(root: Path, made_from: str, pages: Iterable[Path]) -> bool:
    """Whether the pages on disk were made from exactly this, and are all there."""
    try:
        record = json.loads((root / MADE_FROM).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return record["fingerprint"] == made_from and all(page.is_file() for page in pages)


def build(root: Path, pages: list[Path]) -> None:
    """Make all pages afresh; replace those of last time only when every one of `pages` is there."""
    shutil.rmtree(root / NEXT, ignore_errors=True)
    plain = os.environ | {"NO_COLOR": "1"}
    done = subprocess.run(
        jupyter_book(root), env=plain, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BookError(f"the pages could not be built\n{done.stderr.strip() or done.stdout}")
    made = root / NEXT / "_build" / "html"
    names = [page.relative_to(root / HTML).as_posix() for page in pages]
    if missing := [name for name in names if not (made / name).is_file()]:
        raise BookError(f"no page was made for {', '.join(missing)}")
    (root / MADE_FROM).unlink(missing_ok=True)
    put_in_place(made, root / HTML)
    shutil.rmtree(root / NEXT)
    (root / MADE_FROM).write_text(json.dumps({"fingerprint": fingerprint(root)}), encoding="utf-8")


def jupyter_book(root: Path) -> list[str]:
    """The command that builds every page afresh and takes each warning for an error."""
    program = shutil.which("jupyter-book", path=sysconfig.get_path("scripts"))
    options = ["-W", "-n", "--keep-going", "--all", "-q"]
    places = [str(root / SOURCE), "--path-output", str(root / NEXT)]
    return [program or "jupyter-book", "build", *places, *options]
