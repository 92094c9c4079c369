"""A number in a chapter's text is one that its code or output gives; a measured one never is.

Left out of account: what a chapter says about its own teaching (its minutes, an exercise's number),
what stands in code, formulas and addresses, and digits inside a name (Qwen2.5, bfloat16).
"""

import re

import nbformat
import pytest

import notebook_runs
import pages

ROOT = notebook_runs.Path(__file__).parents[2]
LESSONS = [document for document in pages.documents(ROOT) if document.suffix == ".ipynb"]

NOT_PROSE = [
    r"```.*?```",
    r"`[^`\n]*`",
    r"\$\$.*?\$\$",
    r"\$[^$\n]+\$",
    r"<[^>]+>",
    r"\]\([^)]*\)",
    r"https?://\S+",
    r"(?m)^\s*\d+\. ",  # the number of a list's entry
    r"\*\*Time\*\*: \d+ minutes",
    r"\*\*Exercise \d+\*\* \([^)]*\)",
    r"\b[Ee]xercise \d+",
]
NUMERAL = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)")
ANY_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")
MEASURED = re.compile(
    r"\d\s?(?:ms|µs|ns|s|seconds?|milliseconds?|[GT]?B/s|[GT]FLOP/?s?|tokens? (?:a|per) second)\b"
)


def prose(notebook) -> str:
    """The text of a notebook, without what is no prose."""
    text = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    for pattern in NOT_PROSE:
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    return text


def given(notebook) -> set[str]:
    """The numerals of code and of outputs, but for those outputs that differ from run to run."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = [cell.source for cell in cells]
    texts += [shown(cell) for cell in cells if "timing" not in pages.tags(cell)]
    found = set()
    for text in texts:
        for numeral in ANY_NUMERAL.findall(re.sub(r"(?<=\d)_(?=\d)", "", text)):
            found |= {plain(numeral), *re.findall(r"\d+", numeral)}
    return found


def shown(cell) -> str:
    """What a cell put out, as text."""
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text", ""))
        data = output.get("data", {})
        parts += [data.get(kind, "") for kind in ("text/plain", "text/markdown", "text/html")]
    return "\n".join(parts)


def plain(numeral: str) -> str:
    """A numeral without the commas that group its digits: 151,936 is 151936."""
    return numeral.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", numeral) else numeral


def unsupported(notebook) -> list[str]:
    known = given(notebook)
    return [number for number in NUMERAL.findall(prose(notebook)) if plain(number) not in known]


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(ROOT / notebook_runs.EXECUTED / request.param, 4)


def test_each_numeral_in_the_prose_occurs_in_code_or_output(notebook):
    assert unsupported(notebook) == []


def test_no_measured_value_stands_in_the_prose(notebook):
    assert MEASURED.findall(prose(notebook)) == []


def a_notebook(text: str, code: str, output: str = "", tags=()):
    cell = nbformat.v4.new_code_cell(code, metadata={"tags": list(tags)})
    cell.outputs = [nbformat.v4.new_output("stream", text=output)]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text), cell])


@pytest.mark.parametrize(
    ("text", "code", "output", "tags", "missing"),
    [
        ("There are 24 layers.", "assert layers == 24", "", (), []),
        ("There are 24 layers.", "assert layers == 240", "", (), ["24"]),
        ("There are 24 layers.", "layers", "24", (), []),
        ("There are 24 layers.", "layers", "24", ("timing",), ["24"]),
        ("It has 151,936 rows.", "assert rows == 151_936", "", (), []),
        ("It takes 296.75 MiB.", "mib", "296.75 MiB", (), []),
        ("In 16-bit numbers.", "torch.bfloat16", "", (), []),
        ("`x[7]` of Qwen2.5, [here](a9.ipynb), $z_3$", "x", "", (), []),
        ("**Time**: 25 minutes. **Exercise 8** (easy, 3 minutes). 5 more", "x", "", (), ["5"]),
    ],
)
def test_the_search_finds_what_has_no_cell(text, code, output, tags, missing):
    assert unsupported(a_notebook(text, code, output, tags)) == missing


@pytest.mark.parametrize("text", ["about 80 ms", "12 GB/s", "it took 3 seconds", "9 s later"])
def test_the_search_finds_measured_values(text):
    assert MEASURED.findall(prose(a_notebook(text, "x")))
