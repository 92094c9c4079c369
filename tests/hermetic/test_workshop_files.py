"""The files for a class: pinned, shut until opened, the model read-only, nobody's work lost."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import psutil
import pytest
import yaml
from tests.little_book import ROOT
from traitlets.config import Config

import recorded
import room_hub
import room_memory
from inside_generate.interrupts import requests_to_end_as_interrupts

WORKSHOP = ROOT / "book/workshop"
FIRST_LOGIN = WORKSHOP / "first_login.py"
VALUES = yaml.safe_load((WORKSHOP / "z2jh-values.yaml").read_text("utf-8"))
ROOMS = sorted((ROOT / recorded.RESULTS).glob("hub-*.json"))


def configuration(name: str) -> Config:
    """What a configuration file sets, as JupyterHub would read it."""
    config = Config()

    def load(path):
        names = {"get_config": lambda: config, "load_subconfig": load, "__file__": path}
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            exec(compile(file.read(), path, "exec"), names)

    load(str(WORKSHOP / name))
    return config


def test_what_a_class_needs_is_pinned_exactly():
    lines = (WORKSHOP / "requirements.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"#.*|[\w-]+==[\w.]+", line)] == []
    proxy = json.loads((WORKSHOP / "package.json").read_text("utf-8"))["dependencies"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", proxy["configurable-http-proxy"])


def test_a_hub_of_ones_own_is_shut_until_somebody_opens_it(monkeypatch):
    for name in [name for name in os.environ if name.startswith("COURSE_")]:
        monkeypatch.delenv(name)
    hub = configuration("jupyterhub_config.py")
    assert hub.JupyterHub.bind_url.startswith("http://127.0.0.1:")
    assert hub.Authenticator.allowed_users == set()
    assert "authenticator_class" not in hub.JupyterHub
    assert "delete:servers" in hub.JupyterHub.load_roles[0]["scopes"]
    assert hub.Spawner.environment["INSIDE_GENERATE_HOME"] == "/srv/inside-generate/home"


def test_an_empty_variable_is_as_good_as_none(monkeypatch):
    for name in [name for name in os.environ if name.startswith("COURSE_")]:
        monkeypatch.delenv(name)
    without = configuration("jupyterhub_config.py")
    text = "".join(path.read_text("utf-8") for path in WORKSHOP.glob("*_config.py"))
    names = set(re.findall(r'"(COURSE_\w+)"', text))
    assert {"COURSE_MATERIAL", "COURSE_BIND", "COURSE_IDLE_MINUTES"} <= names
    for name in names:
        monkeypatch.setenv(name, "")
    assert configuration("jupyterhub_config.py") == without
    monkeypatch.setenv("COURSE_USERS", " first  second ")
    allowed = configuration("jupyterhub_config.py").Authenticator.allowed_users
    assert allowed == {"first", "second"}


@pytest.mark.parametrize("value", ["0", "-1", "ten", "1.5", " "])
@pytest.mark.parametrize("name", ["COURSE_LEARNERS", "COURSE_IDLE_MINUTES", "COURSE_THREADS"])
def test_a_number_that_is_none_ends_the_hub_in_one_line(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        configuration("jupyterhub_config.py")
    said = f"error: {name} must be a whole number, 1 or more, not {value!r}"
    assert ended.value.code == said


def test_the_snippet_leaves_to_the_hub_who_logs_in_and_what_starts_servers():
    assert set(configuration("course_config.py")) == {"Spawner"}


def test_kernels_of_one_machine_cannot_take_each_others_ports():
    assert "--KernelManager.transport=ipc" in configuration("course_config.py").Spawner.args


def test_pods_mount_the_model_where_they_look_for_it_and_cannot_write_it():
    pod = VALUES["singleuser"]
    [mount] = pod["storage"]["extraVolumeMounts"]
    assert mount["mountPath"] == pod["extraEnv"]["INSIDE_GENERATE_HOME"]
    assert mount["readOnly"] is True
    assert pod["cmd"][1].endswith("first_login.py")
    kept = configuration("course_config.py").Spawner
    assert pod["defaultUrl"] == kept.default_url
    assert pod["memory"]["limit"] == kept.mem_limit


@pytest.fixture
def log_in(tmp_path):
    """Return a function that starts a learner's server, and gives the learner's folder."""
    (tmp_path / "home").mkdir()

    def start():
        command = [sys.executable, "-S", FIRST_LOGIN, tmp_path / "material", "echo", "the server"]
        around = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
        done = subprocess.run(command, env=around, capture_output=True, text=True, check=True)
        assert done.stdout == "the server\n"
        return tmp_path / "home/inside-generate"

    return start


def test_a_learner_gets_the_notebooks_and_keeps_what_was_written_in_them(tmp_path, log_in):
    (tmp_path / "material/notebooks").mkdir(parents=True)
    (tmp_path / "material/notebooks/one.ipynb").write_text("a lesson")
    notebook = log_in() / "notebooks/one.ipynb"
    assert notebook.read_text() == "a lesson"
    notebook.write_text("an answer")
    (tmp_path / "material/notebooks/two.ipynb").write_text("a new lesson")
    assert (log_in() / "notebooks/two.ipynb").read_text() == "a new lesson"
    assert notebook.read_text() == "an answer"


def test_what_jupyterlab_keeps_for_the_teacher_is_not_handed_out(tmp_path, log_in):
    kept = tmp_path / "material/notebooks/.ipynb_checkpoints/one-checkpoint.ipynb"
    kept.parent.mkdir(parents=True)
    kept.write_text("the solution")
    (tmp_path / "material/notebooks/one.ipynb").write_text("a lesson")
    assert [path.name for path in (log_in() / "notebooks").iterdir()] == ["one.ipynb"]


def test_links_that_a_learner_made_stay_and_nothing_is_written_through_them(tmp_path, log_in):
    (tmp_path / "material").mkdir()
    for name in ("one.ipynb", "two.ipynb"):
        (tmp_path / "material" / name).write_text("a lesson")
    (tmp_path / "thesis").write_text("mine")
    (tmp_path / "home/inside-generate").mkdir()
    (tmp_path / "home/inside-generate/one.ipynb").symlink_to("not there now")
    (tmp_path / "home/inside-generate/.two.ipynb.partial").symlink_to(tmp_path / "thesis")
    folder = log_in()
    assert (folder / "one.ipynb").is_symlink()
    assert (folder / "two.ipynb").read_text() == "a lesson"
    assert (tmp_path / "thesis").read_text() == "mine"


@pytest.mark.parametrize("words", [[], ["material"]])
def test_without_a_command_to_become_it_says_what_to_type(words):
    done = subprocess.run(
        [sys.executable, "-S", FIRST_LOGIN, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "usage: python first_login.py MATERIAL COMMAND...\n"


def test_a_server_starts_even_where_the_material_is_missing(log_in):
    assert not log_in().exists()


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: path.stem)
def test_a_recorded_room_says_where_it_was_and_follows_from_its_learners(path):
    room = recorded.read(path)
    assert {"date", "model", "device_name", "cores", "memory_bytes", "versions"} <= set(room)
    assert len(room["learners"]) >= 3
    for one in room["learners"]:
        assert one["pss_bytes"] <= one["rss_bytes"]
        assert one["weights_mapped"]["Private_Dirty"] == 0  # nobody has a copy of their own
    shares = sum(one["weights_mapped"]["Pss"] for one in room["learners"])
    assert shares == pytest.approx(room["weights_bytes"], rel=0.05)
    assert room["together_pss_bytes"] <= sum(one["pss_bytes"] for one in room["learners"])


def test_the_pages_show_what_was_recorded():
    found = {path.name: text for path, text in recorded.sections(ROOT).items()}
    room = recorded.read(ROOMS[0])
    assert recorded.mib(room["together_pss_bytes"]) in found["jupyterhub.md"]
    assert room["date"][:10] in found["jupyterhub.md"]
    assert "## Folders that were packed" in found["offline.md"]


def test_a_page_says_whether_a_room_was_measured_on_an_idle_machine():
    room = recorded.read(ROOMS[0])
    assert "all but idle when it began (load 0.2)" in recorded.room_text(
        room | {"load_before": 0.2}
    )
    assert "(load 13.1): take the seconds" in recorded.room_text(room | {"load_before": 13.1})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how pages are shared")
def test_memory_is_read_for_a_file_that_is_mapped(tmp_path):
    import mmap

    path = tmp_path / "weights"
    path.write_bytes(b"1" * 4096 * 10)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert mapped[4096 * 9] == ord("1")
        found = room_memory.of_file(os.getpid(), "weights")
    assert 4096 <= found["Pss"] <= found["Rss"] <= 4096 * 10


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_hub_is_gone_also_where_the_teacher_is_impatient(monkeypatch, name):
    monkeypatch.setattr(room_hub, "SECONDS_TO_END", 0.6)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(); time.sleep(20)"
    command = [sys.executable, "-S", "-u", "-c", deaf]
    again = threading.Timer(0.2, os.kill, (os.getpid(), getattr(signal, name)))
    with psutil.Popen(command, stdout=subprocess.PIPE) as hub:
        hub.stdout.readline()  # from now on it hears nothing
        with requests_to_end_as_interrupts():
            again.start()
            room_hub.end(hub)
        assert hub.wait(timeout=10) == -signal.SIGKILL
    again.join()
