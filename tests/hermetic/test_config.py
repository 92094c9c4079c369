"""No key of `_config.yml` is one that nothing reads: Jupyter Book says nothing of misspelt ones."""

import copy
import json
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import jupyter_book.config as jupyter_book
import pytest
import sphinx_book_theme
import yaml
from pydata_sphinx_theme import __file__ as pydata

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
# The keys below these are names of extensions and settings of Sphinx, checked on their own.
OPEN = {"sphinx/config", "sphinx/local_extensions"}


def known_to_jupyter_book() -> dict:
    """The keys of its own "master list" and of its schema, as one nested dict."""
    listed = yaml.safe_load(jupyter_book.PATH_YAML_DEFAULT.read_text("utf-8"))
    return merged(listed, from_schema(jupyter_book.get_validator().schema))


def from_schema(schema: dict) -> dict:
    return {key: from_schema(value) for key, value in schema.get("properties", {}).items()}


def merged(left: dict, right: dict) -> dict:
    out = dict(left)
    for key, value in right.items():
        both = isinstance(out.get(key), dict) and isinstance(value, dict)
        out[key] = merged(out[key], value) if both else out.get(key) or value
    return out


def unknown_to_jupyter_book(config: dict, known: dict, path: str = "") -> list[str]:
    found = []
    for key, value in config.items():
        here = f"{path}{key}"
        if key not in known:
            found.append(here)
        elif isinstance(value, dict) and here not in OPEN:
            inner = known[key] if isinstance(known[key], dict) else {}
            found += unknown_to_jupyter_book(value, inner, f"{here}/")
    return found


# In a Python of its own: Sphinx keeps settings of a whole process, and one of its extensions looks
# at every object alive, which wakes deprecation warnings in torch.
LIST_SETTINGS = """
import json, sys
from pathlib import Path
from jupyter_book.config import get_final_config
from sphinx.application import Sphinx

config, folder = map(Path, sys.argv[1:])
settings, _ = get_final_config(user_yaml=config, cli_config={"latex_individualpages": False})
settings["external_toc_path"] = str(folder / "_toc.yml")
places = [folder, None, folder / "out", folder / "trees"]
app = Sphinx(*places, "html", settings, status=None, warning=None)
print(json.dumps(sorted(app.config.values)))
"""


@pytest.fixture(scope="module")
def known_to_sphinx(tmp_path_factory) -> set[str]:
    """All settings that Sphinx and the extensions of the book register."""
    folder = tmp_path_factory.mktemp("sphinx")
    (folder / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    command = [sys.executable, "-c", LIST_SETTINGS, ROOT / "_config.yml", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"extensions", *json.loads(done.stdout.splitlines()[-1])}  # read before there are any


def known_to_themes() -> set[str]:
    """The options that the theme and the one it builds on declare."""
    places = [(sphinx_book_theme.__file__, "sphinx_book_theme"), (pydata, "pydata_sphinx_theme")]
    found = set()
    for module, name in places:
        parser = ConfigParser(interpolation=None)
        assert parser.read(Path(module).parent / "theme" / name / "theme.conf")
        found |= set(parser["options"])
    return found


def unknown_keys(config: dict, sphinx: set[str]) -> list[str]:
    own = config.get("sphinx", {}).get("config") or {}
    theme = own.get("html_theme_options", {})
    return [
        *unknown_to_jupyter_book(config, known_to_jupyter_book()),
        *(f"sphinx/config/{key}" for key in sorted(set(own) - sphinx)),
        *(f"html_theme_options/{key}" for key in sorted(set(theme) - known_to_themes())),
    ]


def test_every_key_of_the_configuration_is_read_by_something(known_to_sphinx):
    assert unknown_keys(CONFIG, known_to_sphinx) == []


@pytest.mark.parametrize(
    "path",
    [
        ("titel",),
        ("execute", "exclude_pattern"),
        ("html", "use_repositry_button"),
        ("launch_buttons", "collab_url"),
        ("sphinx", "extra_extension"),
        ("sphinx", "config", "nb_merge_stream"),
        ("sphinx", "config", "html_theme_options", "navbar_persistant"),
    ],
    ids="/".join,
)
def test_a_misspelt_key_is_found(path, known_to_sphinx):
    config = copy.deepcopy(CONFIG)
    inner = config
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = "x"
    [found] = unknown_keys(config, known_to_sphinx)
    assert found.endswith(path[-1])


def test_every_value_of_the_configuration_fits_the_schema():
    jupyter_book.validate_yaml(CONFIG, raise_on_errors=True)


def test_a_failing_notebook_fails_a_plain_build_too():
    execute = CONFIG["execute"]
    assert execute["execute_notebooks"] == "force"  # never a cache that does not see src/
    assert execute["allow_errors"] is False
    assert execute["stderr_output"] == "remove-warn"


def test_pages_name_no_repository_that_is_not_there():
    assert CONFIG["repository"]["url"] == ""
    assert not any(value for key, value in CONFIG["html"].items() if key.startswith("use_"))
