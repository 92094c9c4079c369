"""A real JupyterHub: learners log in, run a chapter at the same time, and share one model."""

import json
import shutil

import nbformat
import psutil
import pytest
from tests.workshop.conftest import ROOT

import room
import room_hub
from pages import BookError
from room_learner import Learner

LEARNERS = 3
LESSON = "00_the_whole_path"


@pytest.fixture(scope="module", autouse=True)
def npm():
    """The hub's proxy comes from npm."""
    if shutil.which("npm") is None:
        pytest.skip("a classroom server needs npm, and there is none: sudo apt install npm")


@pytest.fixture(scope="module")
def record(model):
    """What a rehearsal took; kept beside the environment it ran in, for people to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSIDE_GENERATE_MODEL", model.name)
        patch.setenv("COURSE_DTYPE", "bfloat16")  # the weights' own format, on busy machines too
        record = room.rehearse(ROOT, LEARNERS, LESSON)
    (ROOT / room.RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub that one learner may enter; nobody starts a server there."""
    python, proxy = room_hub.set_up(ROOT / room.FOLDER)
    state = tmp_path_factory.mktemp("hub")
    with room_hub.running(python, proxy, state, ["ada"], {"COURSE_PYTHON": str(python)}) as hub:
        yield hub


def test_every_learner_ran_the_whole_chapter(record):
    notebook = nbformat.read(ROOT / f"notebooks/{LESSON}.ipynb", 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    solutions = [cell for cell in code if "solution" in cell.metadata.get("tags", [])]
    for one in record["learners"]:
        assert len(code) - len(solutions) <= one["cells"] <= len(code)
        assert one["page_status"] == 200  # JupyterLab itself answers, at the first lesson


def test_no_learner_can_write_the_model_of_all(record):
    if record["writing_was_tried_as"] != "an ordinary user":
        pytest.skip("all may write here: the tests run as root and `unshare --user` is refused")
    # Each kernel has tried, and the rehearsal would have ended with its AssertionError.
    assert len(record["learners"]) == LEARNERS


def test_one_copy_of_the_weights_serves_all(record):
    mapped = [one["weights_mapped"] for one in record["learners"]]
    assert all(one["Private_Dirty"] == 0 for one in mapped)
    whole = [one["Rss"] for one in mapped]
    assert min(whole) > record["weights_bytes"] / 2
    assert sum(one["Pss"] for one in mapped) == pytest.approx(record["weights_bytes"], rel=0.05)


def test_the_record_says_what_a_learner_takes(record):
    for one in record["learners"]:
        assert 100_000_000 < one["pss_bytes"] <= one["rss_bytes"]
        assert one["chapter_s"] > 0
    assert record["together_pss_bytes"] < sum(one["rss_bytes"] for one in record["learners"])


def test_nothing_of_the_class_is_left_running(record):
    folder = str(ROOT / room.FOLDER)
    lines = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    mine = [line for line in lines if folder in line and "rehearsal_config" not in line]
    assert [line for line in mine if "jupyterhub" in line or "ipykernel" in line] == []


def test_only_named_learners_with_the_password_come_in(hub):
    assert Learner(hub.address, "ada", hub.password).token
    with pytest.raises(BookError, match="eve cannot log in"):
        Learner(hub.address, "eve", hub.password)
    with pytest.raises(BookError, match="ada cannot log in"):
        Learner(hub.address, "ada", "guess")
