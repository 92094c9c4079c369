"""The packed folder, used in an empty place with networking cut: install, preflight, lessons."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.workshop.conftest import ROOT

CUT = ["unshare", "--map-root-user", "--net"]
LOOPBACK = 'ip link set lo up 2>/dev/null || ifconfig lo up; exec "$@"'
REACH_OUT = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"


@pytest.fixture(scope="module")
def stick(tmp_path_factory, model) -> Path:
    """The real thing, packed as `make offline` does; the record says how large it is."""
    folder = tmp_path_factory.mktemp("stick") / "inside-generate"
    command = [sys.executable, ROOT / "book/offline.py", "--output", folder]
    around = os.environ | {"INSIDE_GENERATE_MODEL": model.name}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a function that runs a command in an empty home, with no way out of the machine."""
    try:
        subprocess.run([*CUT, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"networking cannot be cut for one process here: {error}")
    home = tmp_path_factory.mktemp("home")

    def run(*command):
        around = {
            "HOME": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "PYTHON": getattr(sys, "_base_executable", sys.executable),
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.run(
            [*CUT, "sh", "-c", LOOPBACK, "sh", *command],
            cwd=home,
            env=around,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def course(stick, alone, tmp_path_factory) -> Path:
    """The course, installed from the folder alone."""
    folder = tmp_path_factory.mktemp("disk") / "course"
    done = alone("sh", stick / "install.sh", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_there_is_really_no_way_out(alone):
    done = alone(sys.executable, "-c", REACH_OUT)
    assert "unreachable" in done.stderr


def test_the_installed_course_passes_the_preflight(course, alone, model):
    done = alone(course / "run", "python", "-m", "inside_generate", "doctor")
    assert done.returncode == 0, done.stdout
    assert done.stdout.strip().splitlines()[-1].startswith(f"ready: {model.name}")


def test_the_installed_package_is_the_one_of_the_folder(course, alone):
    code = "import inside_generate; print(inside_generate.__file__)"
    done = alone(course / "run", "python", "-c", code)
    assert Path(done.stdout.strip()).is_relative_to(course / "venv")


@pytest.mark.parametrize("name", ["00_the_whole_path", "01_tokenizer"])
def test_a_notebook_runs_from_the_installed_course(course, alone, name):
    test = ["python", "-m", "pytest", "--nbmake", "-q", f"notebooks/{name}.ipynb"]
    done = alone(course / "run", *test)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_folders_pages_open_as_files_and_ask_no_other_host(stick, request):
    browser = request.getfixturevalue("browser")
    pages = sorted((stick / "site").glob("*/*.html"))
    asked, complaints = [], []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    for path in [stick / "site/index.html", *pages]:
        page.goto(path.as_uri(), wait_until="load")
    page.close()
    assert len(pages) > 20
    assert len(asked) > len(pages)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert complaints == []


def test_the_record_tells_what_the_folder_weighs(stick):
    record = json.loads((stick / "stick.json").read_text("utf-8"))
    assert record["packages"] > 100
    assert record["bytes"]["packages"] > 100_000_000
    assert not list((stick / "wheels").glob("*.tar.gz"))
