"""A stick's folder is packed whole or not at all, and its installer trusts nothing it can check."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.little_book import ROOT, make_book

import offline
import wheelhouse
from pages import BookError

PARTS = {"site", "notebooks", "home", "wheels", "requirements.txt", "stick.json", "SHA256SUMS"}
INSTALLER = {"install.sh", "install.cmd", "install.py", "README.txt"}


def quiet(_: str) -> None:
    """Say nothing."""


def write_wheel(folder: Path, name: str, python: str = ">=3.11") -> None:
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("demo.py", "x" * 1000)
        wheel.writestr(f"{name}.dist-info/METADATA", f"Name: demo\nRequires-Python: {python}\n")


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A little book with pages and a model, and a pip that brings two wheels."""
    root = make_book(tmp_path / "book")
    (root / "_build/html").mkdir(parents=True)
    (root / "_build/html/index.html").write_text("a page")
    monkeypatch.setenv("INSIDE_GENERATE_MODEL", str(root / "model"))

    def pip(command, arguments):
        name = {"download": "demo-1.0", "wheel": "inside_generate-0.1.0"}[command]
        write_wheel(root / "_build/.stick.partial/wheels", name)

    monkeypatch.setattr(wheelhouse, "pip", pip)
    return root


@pytest.fixture
def stick(book):
    """A packed folder."""
    offline.pack(book, book / "_build/stick", [], quiet)
    return book / "_build/stick"


@pytest.fixture
def installer(stick):
    """The packed installer as a module."""
    spec = importlib.util.spec_from_file_location("stick_install", stick / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pack_again(book, **options):
    with pytest.raises(BookError) as error:
        offline.pack(book, options.get("output", book / "_build/stick"), [], quiet)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_folder_holds_all_that_a_learner_needs_and_the_record_tells_its_size(stick):
    assert {path.name for path in stick.iterdir()} == PARTS | INSTALLER
    record = json.loads((stick / "stick.json").read_text())
    assert record["bytes"]["model"] == offline.size([stick / "home"])
    assert record["bytes"]["packages"] == offline.size([stick / "wheels"]) > 0
    assert record["packages_unpacked_bytes"] > 2000
    assert (stick / "requirements.txt").read_text() == "demo==1.0\ninside-generate==0.1.0\n"


def test_the_sums_are_those_of_every_other_file(stick):
    done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=stick, check=False)
    assert done.returncode == 0
    listed = {line.split("  ")[1] for line in (stick / "SHA256SUMS").read_text().splitlines()}
    here = {str(path.relative_to(stick)) for path in stick.rglob("*") if path.is_file()}
    assert listed == here - {"SHA256SUMS"}


def test_no_blank_is_left_in_what_learners_read_and_run(stick):
    for name in INSTALLER:
        assert re.findall("@[A-Z_]+@", (stick / name).read_text()) == []
    assert b"\r\n" in (stick / "install.cmd").read_bytes()


def test_a_failure_leaves_the_last_folder_and_nothing_half_made(book, stick, monkeypatch):
    before = (stick / "SHA256SUMS").read_text()

    def broken(*_):
        raise BookError("pip download failed: no such package")

    monkeypatch.setattr(wheelhouse, "pip", broken)
    assert "no such package" in pack_again(book)
    assert (stick / "SHA256SUMS").read_text() == before
    assert not (book / "_build/.stick.partial").exists()


def test_source_packages_are_refused_since_they_need_a_compiler(book, monkeypatch):
    def pip(*_):
        (book / "_build/.stick.partial/wheels/demo-1.0.tar.gz").touch()

    monkeypatch.setattr(wheelhouse, "pip", pip)
    assert "demo-1.0.tar.gz, which is no wheel" in pack_again(book)


def test_without_pages_or_space_there_is_one_line_that_says_what_to_do(book, monkeypatch):
    monkeypatch.setattr(offline, "WHEELS_AT_LEAST", 10**18)
    assert "make room" in pack_again(book)
    (book / "_build/html/index.html").unlink()
    assert pack_again(book) == "there are no pages yet; type: make book"


def test_a_folder_that_was_not_packed_here_is_left_alone(book, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years")
    assert "was not packed by this" in pack_again(book, output=tmp_path / "mine")
    assert (tmp_path / "mine/thesis.txt").read_text() == "years"


def test_a_link_is_followed_and_one_to_itself_is_refused_before_anything_is_made(book, stick):
    link, loop = book / "_build/link", book / "_build/loop"
    link.symlink_to(stick)
    loop.symlink_to("loop")
    before = stick.stat().st_ino
    offline.pack(book, link, [], quiet)
    assert link.is_symlink()
    assert stick.stat().st_ino != before
    assert "was not packed by this" in pack_again(book, output=loop)


@pytest.mark.parametrize("place", ["handout.pdf", "notebooks/one.ipynb", "site/mine/slides.odp"])
def test_what_was_put_into_a_packed_folder_or_worked_on_is_left_alone(book, stick, place):
    (stick / place).parent.mkdir(exist_ok=True)
    (stick / place).write_text("mine")
    assert f"({place})" in pack_again(book)
    assert (stick / place).read_text() == "mine"


def test_where_the_new_folder_cannot_be_put_in_place_the_last_one_stays(book, stick, monkeypatch):
    before = {path: path.stat().st_size for path in stick.rglob("*")}
    real = Path.replace

    def fails(self, target):
        if self.name == ".stick.partial":
            raise OSError(16, "Device or resource busy")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="busy"):
        offline.pack(book, stick, [], quiet)
    assert {path: path.stat().st_size for path in stick.rglob("*")} == before
    assert [path.name for path in stick.parent.glob(".*stick*")] == []


def test_what_the_help_shows_of_pips_options_can_be_typed(monkeypatch, capsys):
    given = []
    monkeypatch.setattr(offline, "make", lambda _root, _output, words: given.append(words))
    monkeypatch.setattr(sys, "argv", ["book/offline.py", "--help"])
    with pytest.raises(SystemExit):
        offline.main()
    [shown] = re.findall(r'(--pip-args=)"(.*)"', " ".join(capsys.readouterr().out.split()))
    monkeypatch.setattr(sys, "argv", ["book/offline.py", "".join(shown)])
    assert offline.main() == 0
    assert given == [shown[1]]


def test_pips_own_reason_is_the_error():
    with pytest.raises(BookError, match=r"pip download failed: .*nosuchpackage.*PIP_ARGS"):
        wheelhouse.pip("download", ["--no-index", "nosuchpackage==1"])


def test_the_oldest_python_is_the_first_that_every_wheel_takes(tmp_path):
    major, minor, micro = sys.version_info[:3]
    write_wheel(tmp_path, "a-1")
    write_wheel(tmp_path, "b-1", f">={major}.{minor}.{micro}")
    assert wheelhouse.oldest_python(tmp_path) == f"{major}.{minor}.{micro}"


def test_a_changed_file_is_found_before_anything_is_installed(installer, stick, tmp_path):
    (stick / "site/index.html").write_text("another page")
    with pytest.raises(installer.InstallError, match=r"site/index\.html is not as it was packed"):
        installer.install(stick, tmp_path / "course")
    (stick / "site/index.html").unlink()
    with pytest.raises(installer.InstallError, match=r"site/index\.html cannot be read"):
        installer.install(stick, tmp_path / "course")
    assert not (tmp_path / "course").exists()


@pytest.mark.parametrize("key", ["system", "machine", "python_at_least"])
def test_another_machine_or_python_is_refused(installer, stick, tmp_path, key):
    record = json.loads((stick / "stick.json").read_text()) | {key: "2.7.18"}
    (stick / "stick.json").write_text(json.dumps(record))
    with pytest.raises(installer.InstallError, match="this folder is for Python"):
        installer.install(stick, tmp_path / "course")


def test_a_folder_with_work_in_it_is_left_alone_and_a_cut_off_install_begins_again(
    installer, stick, tmp_path, monkeypatch
):
    monkeypatch.setattr(installer, "install_packages", lambda *_: None)
    course = tmp_path / "course"
    installer.install(stick, course)
    with pytest.raises(installer.InstallError, match="may hold your work"):
        installer.install(stick, course)
    (course / installer.UNFINISHED).touch()
    installer.install(stick, course)
    assert not (course / installer.UNFINISHED).exists()


def test_an_install_that_fails_leaves_nothing_behind(installer, stick, tmp_path, monkeypatch):
    def broken(*_):
        raise installer.InstallError("pip install failed")

    monkeypatch.setattr(installer, "install_packages", broken)
    with pytest.raises(installer.InstallError):
        installer.install(stick, tmp_path / "course")
    assert not (tmp_path / "course").exists()


def typed(installer, monkeypatch, capsys, *words: str) -> tuple[int, str, str]:
    """Install as somebody types it: exit status, output, complaint."""
    monkeypatch.setattr(sys, "argv", ["install.py", *words])
    monkeypatch.setattr(installer, "install_packages", lambda *_: None)
    try:
        code = installer.main()
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


@pytest.mark.parametrize("what", ["the folder one stands in", "a link to an empty one"])
def test_an_empty_folder_is_installed_into_and_stays_itself(
    installer, tmp_path, monkeypatch, capsys, what
):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    before = (tmp_path / "empty").stat().st_ino
    monkeypatch.chdir(tmp_path / "empty")
    word = "." if what.startswith("the") else str(tmp_path / "link")
    assert typed(installer, monkeypatch, capsys, word)[0] == 0
    assert (tmp_path / "empty").stat().st_ino == before
    assert (tmp_path / "empty/run").is_file()


def test_what_is_to_be_typed_next_can_be_typed_where_a_path_has_a_space(
    installer, tmp_path, monkeypatch, capsys
):
    code, said, _ = typed(installer, monkeypatch, capsys, str(tmp_path / "a ü course"))
    assert code == 0
    command = said.splitlines()[-2].strip().partition(" python ")[0]
    done = subprocess.run(
        ["sh", "-c", f"{command} sh -c pwd"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / "a ü course")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("~nobody-of-this-name/x", "lies in a home that is not known"),
        ("file", "is no folder that can be written into"),
        ("file/below", "is no folder that can be written into"),
        (f"a{os.pathsep}b", "stands between paths"),
    ],
)
def test_a_place_where_nothing_can_be_installed_is_named_at_once(
    installer, tmp_path, monkeypatch, capsys, word, line
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(installer, "check_sums", lambda _: pytest.fail("it went on"))
    before = sorted(tmp_path.iterdir())
    code, _, said = typed(installer, monkeypatch, capsys, word)
    assert (code, said.count("\n")) == (1, 1)
    assert line in said
    assert sorted(tmp_path.iterdir()) == before


def test_two_places_are_one_too_many(installer, monkeypatch, capsys):
    code, _, said = typed(installer, monkeypatch, capsys, "a", "b")
    assert (code, said) == (
        2,
        "error: unrecognized arguments: b; type: python install.py [FOLDER]\n",
    )


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_an_install_that_is_asked_to_end_leaves_nothing_behind(
    installer, tmp_path, monkeypatch, capsys, name
):
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)
    monkeypatch.setattr(installer, "write_run", lambda *_: signal.raise_signal(number))
    try:
        code, _, said = typed(installer, monkeypatch, capsys, str(tmp_path / "course"))
    finally:
        signal.signal(number, before)
    assert (code, said) == (130, "stopped; nothing was left behind\n")
    assert not (tmp_path / "course").exists()


def test_a_model_of_ones_own_may_have_any_name(installer, stick, tmp_path):
    record = json.loads((stick / "stick.json").read_text()) | {"model": "it's $HOME `x`"}
    installer.write_run(tmp_path, record)
    done = subprocess.run(
        [tmp_path / "run", "sh", "-c", 'echo "$INSIDE_GENERATE_MODEL"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tmp_path}/home/models/it's $HOME `x`\n"


def test_what_is_run_afterwards_finds_home_and_model(installer, stick, tmp_path, monkeypatch):
    monkeypatch.setattr(installer, "install_packages", lambda *_: None)
    course = tmp_path / "a course"
    installer.install(stick, course)
    shown = 'echo "$INSIDE_GENERATE_HOME|$INSIDE_GENERATE_MODEL"'
    done = subprocess.run(
        [course / "run", "sh", "-c", shown], capture_output=True, text=True, check=True
    )
    home, model = done.stdout.strip().split("|")
    assert home == str(course / "home")
    assert Path(model, "model.safetensors").is_file()


def test_the_shell_finds_the_python_it_was_packed_for_and_says_so_when_there_is_none(
    stick, tmp_path
):
    (tmp_path / "bin").mkdir()
    for name in ("dirname", "sh"):
        (tmp_path / "bin" / name).symlink_to(Path("/usr/bin", name))
    around = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    command = ["/bin/sh", stick / "install.sh", "--help"]
    found = subprocess.run(command, env=around | {"PYTHON": sys.executable}, check=False)
    assert found.returncode == 0
    none = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    assert none.returncode == 1
    assert none.stderr.startswith("error: this folder needs Python")
    assert none.stderr.count("\n") == 1


def test_make_offline_packs_after_the_book():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\noffline: book\n\t@$(PY) book/offline.py" in makefile
