"""The plans' rows name sections: their cells find what they use, made in cells that were run."""

import ast
import builtins
import re
from pathlib import Path

from mdit_py_plugins.anchors.index import slugify

import chapters

ROOT = Path(__file__).parents[2]
PLANS = ROOT / "book/teaching/plans.md"
LESSONS = chapters.notebooks(ROOT)


def test_a_plan_passes_over_sections_that_later_ones_need_and_says_to_run_their_cells():
    """In The chat template: what the named sections use was made in others above them."""
    named = {
        slugify(link)
        for link in re.findall(r"03_chat_template\.ipynb#([\w-]+)", PLANS.read_text("utf-8"))
    }
    made, used, part = set(dir(builtins)), set(), ""
    for cell in LESSONS["03_chat_template"].cells:
        for heading in chapters.headings(cell):
            part = slugify(heading)
        if cell.cell_type == "code" and part in {"overview", *named} - {"exercises"}:
            stored, loaded = names(cell.source)
            made, used = made | stored, used | loaded
    rule = " ".join(PLANS.read_text("utf-8").partition("## One hour")[0].split())
    assert {"rendered", "start_id"} <= used - made
    assert "Run their cells all the same" in rule


def test_the_labs_of_the_day_need_the_tools_and_no_other_lab():
    """Run on their own, by name: whatever they use, they or the chapter's beginning have made."""
    made, used, part = {}, {}, ""
    for cell in LESSONS["17_breaking_it"].cells:
        for heading in chapters.headings(cell):
            part = heading.partition(":")[0]
        if cell.cell_type == "code" and "solution" not in cell.metadata.get("tags", []):
            stored, loaded = names(cell.source)
            made[part] = made.get(part, set()) | stored
            used[part] = used.get(part, set()) | loaded
    labs = set(re.findall(r"\[lab (\w)\]", PLANS.read_text("utf-8")))
    assert labs == {"H", "I", "L"}
    beginning = {*dir(builtins), *made["Overview"], *made["The tools"]}
    for lab in (f"Lab {letter}" for letter in labs):
        assert used[lab] - made[lab] - beginning == set()
    assert used["Lab B"] - made["Lab B"] - beginning  # one that does need another


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell makes, and those that it uses."""
    stored, loaded = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (stored if isinstance(node.ctx, ast.Store) else loaded).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            stored.add(node.name)
        elif isinstance(node, ast.arg):
            stored.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            stored |= {(one.asname or one.name).partition(".")[0] for one in node.names}
    return stored, loaded
