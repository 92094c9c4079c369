"""Where the course is published: good addresses in one spelling, others refused in one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import addresses
from pages import BookError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ending", ["", "/", ".git", ".git/"])
def test_a_repository_has_one_spelling(ending):
    read = addresses.read(f"https://github.com/an-owner/a.course_1{ending}", "", "")
    assert read.repository == "https://github.com/an-owner/a.course_1"


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "github.com/owner/name",
        "http://github.com/owner/name",
        "https://github.com/owner",
        "https://github.com/owner/name/tree/main",
        "https://github.com/owner/..",
        'https://github.com/owner/na"me',
        "https://gitlab.example/owner/name",
        "https://github.com/owner/name\n",
    ],
)
def test_what_is_no_repository_is_refused_with_its_text(text):
    with pytest.raises(BookError) as caught:
        addresses.read(text, "", "")
    said = f"REPO_URL must look like https://github.com/OWNER/NAME, not {text!r}"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "text",
    [
        "example.org",
        "ftp://example.org",
        "https://",
        "https://user@example.org/",
        "https://:secret@example.org/",
        "https://example.org/?q=1",
        "https://example.org/#top",
        "https://example.org:port/",
        'https://example.org/"><script>',
        "https://example.org/a b",
        "https://exämple.org/",
        "https://[",
    ],
)
@pytest.mark.parametrize("name", ["SITE_URL", "HUB_URL"])
def test_what_is_no_address_is_refused_with_its_name(name, text):
    given = {"SITE_URL": ("", text, ""), "HUB_URL": ("", "", text)}[name]
    with pytest.raises(BookError) as caught:
        addresses.read(*given)
    assert str(caught.value).startswith(f"{name} must look like ")
    assert repr(text) in str(caught.value)


def test_an_address_ends_in_one_slash():
    read = addresses.read("", "https://example.org/course", "http://127.0.0.1:8000//")
    assert (read.site, read.hub) == ("https://example.org/course/", "http://127.0.0.1:8000/")


def test_launch_links_are_well_formed_whatever_a_notebook_is_called():
    read = addresses.read("https://github.com/o/n", "", "https://hub.test/base")
    assert read.colab("notebooks/a b#?é.ipynb").endswith(
        "/o/n/blob/launch/notebooks/a%20b%23%3F%C3%A9.ipynb"
    )
    assert read.on_hub("notebooks/a b.ipynb") == (
        "https://hub.test/base/hub/user-redirect/lab/tree/inside-generate/notebooks/a%20b.ipynb"
    )


def test_with_no_address_the_settings_stay_as_they_are():
    config = {"html": {}, "repository": {"url": ""}, "sphinx": {"config": {}}}
    assert addresses.settings(config, addresses.Addresses()) == {
        "html": {},
        "repository": {"url": ""},
        "sphinx": {"config": {}},
    }


def test_a_mistyped_address_ends_the_build_in_one_line():
    command = [sys.executable, ROOT / "book/build.py", "--repo-url=nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: REPO_URL must look like https://github.com/OWNER/NAME, not 'nonsense'"
    ]


@pytest.mark.parametrize("program", ["build", "student", "offline", "room"])
def test_a_python_without_the_packages_is_said_in_one_line(program):
    command = [sys.executable, "-S", ROOT / f"book/{program}.py"]  # nothing that pip installed
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: nbformat is missing from this Python (")
    assert done.stderr.count("\n") == 1
