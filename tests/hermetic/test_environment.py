"""What a run ran on: read off the machine and the model, and ``None`` where there is nothing."""

import datetime
import platform
import re
import shutil
import subprocess

import pytest
import torch
import transformers
from tests.tiny import tiny_model

from inside_generate import environment, provenance
from inside_generate.device import cpu_name, device_name
from inside_generate.environment import describe, source_commit


@pytest.fixture
def facts(model):
    return describe(model)


def test_versions_are_those_of_the_running_libraries(facts):
    assert facts["torch_version"] == torch.__version__
    assert facts["transformers_version"] == transformers.__version__
    assert facts["python_version"] == platform.python_version()
    assert facts["cuda_version"] == torch.version.cuda


def test_on_a_cpu_the_device_has_a_name_and_the_gpu_has_none(facts):
    assert facts["device"] == "cpu"
    assert facts["device_name"] == cpu_name()
    assert facts["gpu_name"] is None


def test_a_cpu_run_names_no_gpu_though_the_machine_has_one(model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "a GPU")
    assert describe(model)["gpu_name"] is None


def test_on_cuda_the_device_is_named_by_its_driver(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU number {device.index}")
    assert device_name(torch.device("cuda:1")) == "GPU number 1"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_dtype_is_read_from_the_weights(dtype):
    assert describe(tiny_model().to(dtype))["dtype"] == str(dtype).removeprefix("torch.")


def test_the_date_is_now_with_its_time_zone(facts):
    date = datetime.datetime.fromisoformat(facts["date"])
    assert abs(datetime.datetime.now(datetime.UTC) - date) < datetime.timedelta(minutes=5)


def test_a_model_made_in_memory_is_called_that_and_has_no_revision(facts):
    assert facts["model_id"] == "Qwen2ForCausalLM made in memory"
    assert facts["revision"] is None


def test_a_model_from_a_path_is_named_by_it_and_its_weights(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "mine")
    tokenizer.save_pretrained(tmp_path / "mine")
    from inside_generate import load

    _, loaded = load(tmp_path / "mine", device="cpu", dtype="float32")
    facts = describe(loaded)
    assert facts["model_id"] == str(tmp_path / "mine")
    assert re.fullmatch("[0-9a-f]{64}", facts["revision"])


def test_provenance_names_model_machine_versions_and_date(model):
    lines = provenance(model).splitlines()
    assert [line.split()[0] for line in lines] == ["model", "which", "device", "versions", "run"]
    for line, words in zip(
        lines,
        [
            ["Qwen2ForCausalLM made in memory"],
            ["not from a checkpoint"],
            ["cpu", cpu_name(), "float32"],
            [torch.__version__, transformers.__version__, platform.python_version()],
            [str(datetime.datetime.now(datetime.UTC).year)],
        ],
        strict=True,
    ):
        assert all(word in line for word in words)


def test_provenance_writes_no_none_where_a_model_has_no_revision(model):
    assert "None" not in provenance(model)


# --- the commit of the course itself --------------------------------------------------------------


def git(folder, *arguments):
    identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost"]
    command = ["git", *identity, "-c", "commit.gpgsign=false", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A commit of a small course, whose module takes itself to lie there."""
    if not shutil.which("git"):
        pytest.skip("needs git, which is not on this machine")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set inside a git hook
        monkeypatch.delenv(name, raising=False)
    module = tmp_path / "course" / "src" / "inside_generate" / "environment.py"
    module.parent.mkdir(parents=True)
    module.write_text("first\n")
    monkeypatch.setattr(environment, "__file__", str(module))
    top = tmp_path / "course"
    git(top, "init", "--quiet")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "first")
    return top


def test_a_clean_checkout_gives_its_whole_commit(checkout):
    assert source_commit() == git(checkout, "rev-parse", "HEAD")
    assert len(source_commit()) == 40


def test_a_tag_does_not_take_the_commits_place(checkout):
    git(checkout, "tag", "-a", "v1", "-m", "v1")
    assert source_commit() == git(checkout, "rev-parse", "HEAD")


def test_an_edited_checkout_says_so(checkout):
    (checkout / "src" / "inside_generate" / "environment.py").write_text("second\n")
    assert source_commit() == git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_a_copy_installed_inside_another_checkout_has_no_commit(checkout, monkeypatch):
    installed = checkout / ".venv" / "site-packages" / "inside_generate" / "environment.py"
    installed.parent.mkdir(parents=True)
    monkeypatch.setattr(environment, "__file__", str(installed))
    assert source_commit() is None


def test_a_copy_outside_a_checkout_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "environment.py"))
    assert source_commit() is None


def test_a_checkout_without_a_commit_has_none(checkout):
    git(checkout, "update-ref", "-d", "HEAD")
    assert source_commit() is None


def test_a_machine_without_git_has_no_commit(checkout, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_commit() is None
