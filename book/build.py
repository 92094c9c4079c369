"""Runs what is out of date and makes the pages: `python book/build.py`.

Composes `notebook_runs.py`, `recordings.py` and `pages.py`, and is the only one of them that
prints. `--notebooks-only` stops after notebooks and recordings have run.

What imports torch is imported where it is used: it takes seconds, and a mistyped address need not
wait for it.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import installed  # noqa: F401

# isort: split
import addresses
import endings
import launch
import notebook_runs
import pages
import recordings
from addresses import Addresses
from inside_generate.arguments import OneLineParser

ROOT = Path(__file__).resolve().parent.parent


def place() -> str:
    """Where the notebooks will compute, and in which number format."""
    from inside_generate.device import choose_device, choose_dtype, device_name

    device = choose_device()
    dtype, _ = choose_dtype("auto", device)
    return f"{dtype} on {device}: {device_name(device)}"


def say(words: str) -> None:
    """Print a line at once, also where the output goes to a file."""
    print(words, flush=True)


def run_models(root: Path, documents: list[Path], notebooks: list[Path]) -> None:
    """Run the notebooks and the recordings that are out of date. BookError if one fails."""
    from inside_generate.finding import find

    model = find()
    around = notebook_runs.surroundings(root, model, place())
    run_notebooks(root, notebooks, around)
    names = recordings.wanted(root, documents)
    made = recordings.record_stale(root, names, around, say)
    if names:
        say(f"{len(names)} recordings for the player, {made or 'none'} anew")


def run_notebooks(root: Path, notebooks: list[Path], around: dict[str, Any]) -> None:
    """Run the notebooks that are out of date. BookError if one of them fails."""
    start = time.perf_counter()
    failed, ran = notebook_runs.run_stale(root, notebooks, around, say)
    if failed:
        names = ", ".join(path.as_posix() for path in failed)
        raise pages.BookError(f"{names} failed: see above; no page was made")
    took = f", {ran} of them now, in {time.perf_counter() - start:.0f} s" if ran else ", none anew"
    say(f"{len(notebooks)} notebooks ran on {around['model_name']}{took}")


def make_pages(
    root: Path, documents: list[Path], notebooks: list[Path], where: Addresses | None = None
) -> None:
    """Make the pages unless those on disk were made from the same sources."""
    where = where or Addresses()
    pages.publish(root, notebooks, partial(addresses.settings, addresses=where))
    recordings.publish(root, recordings.wanted(root, documents))
    wanted = [pages.page_of(root, document) for document in documents]
    if not pages.are_current(root, pages.fingerprint(root), wanted):
        say(f"Making {len(wanted)} pages")
        pages.build(root, wanted)
    print(f"{len(wanted)} pages. Open {root / pages.HTML / 'index.html'}")


def make_launch_copies(root: Path, notebooks: list[Path], where: Addresses) -> None:
    """Write the copies that launch links lead to, and say where they belong."""
    if count := launch.write(root, notebooks, where):
        print(
            f"{count} launch copies in {root / launch.LAUNCH}: push what is in it to the branch "
            f"{addresses.LAUNCH_BRANCH} of {where.repository}"
        )


def main() -> int:
    """Parse the command line, do the work, and return the exit status."""
    parser = OneLineParser(prog="python book/build.py", description=__doc__.splitlines()[0])
    parser.add_argument("--notebooks-only", action="store_true", help="run them, make no pages")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder of the book")
    parser.add_argument("--repo-url", default="", help="the course's own repository on GitHub")
    parser.add_argument("--site-url", default="", help="where the pages will stand")
    parser.add_argument("--hub-url", default="", help="a JupyterHub that has the course")
    arguments = parser.parse_args()
    given = arguments.repo_url, arguments.site_url, arguments.hub_url
    return endings.run(lambda: make(arguments.root.resolve(), given, arguments.notebooks_only))


def make(root: Path, given: tuple[str, str, str], notebooks_only: bool) -> None:
    """Run what is out of date; make pages and launch copies for the addresses that were given."""
    where = addresses.read(*given)
    documents = pages.documents(root)
    notebooks = [path for path in documents if path.suffix == ".ipynb"]
    run_models(root, documents, notebooks)
    if not notebooks_only:
        make_pages(root, documents, notebooks, where)
        make_launch_copies(root, notebooks, where)


if __name__ == "__main__":
    sys.exit(main())
