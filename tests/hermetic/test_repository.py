"""The repository keeps its own promises: pins, commands, small files, nothing that a run left."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, packages_distributions, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RANGES = {canonicalize_name(Requirement(line).name): line for line in PROJECT["dependencies"]}
TARGETS = re.findall(
    r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE
)


def pins(name: str) -> dict[str, str]:
    """The packages that a requirement file pins, with their versions."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    exact = [line.split("==") for line in lines if re.match(r"^[\w.-]+==", line)]
    return {canonicalize_name(package): release.strip() for package, release in exact}


DIRECT = pins("requirements.txt")
INDIRECT = pins(".ci/constraints.txt")
TESTING = pins(".ci/requirements-test.txt")


def test_the_packages_of_the_design_are_pinned():
    wanted = {"ipywidgets", "jupyter-book", "jupyterlab", "matplotlib", "nbmake"}
    assert {*wanted, "torch", "transformers"} <= set(DIRECT)
    assert DIRECT["torch"] == "2.13.0"  # no local part: each machine takes its own build
    assert DIRECT["jupyter-book"].startswith("1.")  # 2 is another program


def test_one_command_installs_the_constraints_and_the_package_itself():
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    assert lines[0] == "-c .ci/constraints.txt"
    assert lines[-1] == "-e ."


@pytest.mark.parametrize("name", RANGES)
def test_each_pin_lies_in_the_range_that_the_package_declares(name):
    assert Requirement(RANGES[name]).specifier.contains(DIRECT[name])


def test_no_package_is_pinned_twice():
    files = [DIRECT, INDIRECT, TESTING]
    assert sum(map(len, files)) == len(set().union(*files))


@pytest.mark.skipif(
    not Path(sys.prefix).is_relative_to(ROOT), reason="needs the .venv of the Makefile"
)
def test_what_is_installed_is_what_is_pinned():
    wanted = {**DIRECT, **INDIRECT, **TESTING}
    found = {name: version(name).split("+")[0] for name in wanted}
    assert found == wanted


@pytest.mark.parametrize("name", sorted({*DIRECT, *INDIRECT, *TESTING}))
def test_each_pin_installs_on_every_python_that_the_readme_means(name):
    try:
        about = metadata(name)
    except PackageNotFoundError:  # some are for other systems
        pytest.skip(f"{name} is not installed here")
    accepted = SpecifierSet(about["Requires-Python"] or "")
    assert [python for python in ("3.11.0", "3.12.0", "3.13.0") if python not in accepted] == []


def imported_by_the_package() -> set[str]:
    """The top-level modules that src/ imports, without Python's own and its own."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "src").rglob("*.py")]
    found = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"inside_generate"}


def test_the_package_declares_what_it_imports_and_no_more():
    owners = packages_distributions()
    needed = {canonicalize_name(owners[module][0]) for module in imported_by_the_package()}
    assert needed == set(RANGES)


def test_the_makefile_has_eleven_targets_or_fewer_and_help_names_each():
    assert {"book", "test", "check", "lab", "clean", "help"} <= set(TARGETS)
    assert len(TARGETS) <= 11
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = [name for name in TARGETS if f"make {name} " not in told.stdout and name != "help"]
    assert missing == []


def test_cleaning_up_leaves_the_students_edition_with_what_was_worked_in_it(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for place in ("student/notebooks", "html", ".half-made"):
        (tmp_path / "_build" / place).mkdir(parents=True)
    subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, check=True)
    assert [path.name for path in (tmp_path / "_build").iterdir()] == ["student"]


def test_the_two_commands_are_what_the_continuous_checks_call():
    workflow = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text("utf-8"))
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert {"bash .ci/run", "make book"} <= set(steps)
    assert "\nmake test\n" in (ROOT / ".ci/run").read_text("utf-8")


def test_pre_commit_runs_what_make_check_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    entries = [hook["entry"] for repo in hooks for hook in repo["hooks"]]
    commands = re.findall(r"^\t@\$\(PY\) -m (.*)$", makefile_rule("check"), flags=re.MULTILINE)
    assert len(commands) >= 4
    assert [f".venv/bin/python -m {command}" for command in commands] == entries[: len(commands)]


def makefile_rule(name: str) -> str:
    text = (ROOT / "Makefile").read_text("utf-8")
    return re.search(rf"^{name}:.*?(?=^\S)", text, flags=re.MULTILINE | re.DOTALL)[0]


def committed() -> list[Path]:
    """The files that are in git or would be added to it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_nothing_that_a_run_produces_is_committed():
    produced = ("_build", "fixtures", ".venv", "__pycache__", ".ipynb_checkpoints")
    assert [path for path in committed() if set(path.parts) & set(produced)] == []


def test_the_files_of_the_package_and_the_book_are_short_enough_to_read():
    long = [
        f"{path.relative_to(ROOT)}: {lines}"
        for folder in ("src", "book")
        for path in (ROOT / folder).rglob("*.py")
        if (lines := path.read_text("utf-8").count("\n")) > 250
    ]
    assert long == []


def test_no_file_holds_the_address_of_a_package_index_or_a_large_binary():
    index = re.compile(r"(index-url|registry)\s*[= ]\s*http|https?://\S*/simple(/|$)")
    for path in committed():
        assert path.stat().st_size < 1_000_000, path
        if path.suffix not in {".png", ".ico"}:
            assert not index.search(path.read_text("utf-8")), path


def test_licences_and_citation_name_the_contributors_and_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["authors"] == PROJECT["authors"]
    licence = (ROOT / "LICENSE").read_text("utf-8")
    assert "MIT License" in licence
    assert "Creative Commons Attribution 4.0 International" in licence
