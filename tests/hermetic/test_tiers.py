"""What `tests/conftest.py` promises: tiers, no silent skip in CI, no way out of the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SKIPPED = "import pytest\n\ndef test_that_is_skipped():\n    pytest.skip('no oven here')\n"
ALLOWED = SKIPPED.replace("no oven here", "needs a CUDA GPU")
MODULE_SKIPPED = "import pytest\npytest.importorskip('no_such_module_anywhere')\n"
REACHES_OUT = """
import socket
import pytest

def test_that_reaches_out():
    with pytest.raises(OSError), socket.create_connection(("192.0.2.1", 80), timeout=1):
        pass
"""
READS_TIER = """
def test_that_reads_its_tier(request):
    assert [mark.name for mark in request.node.iter_markers()] == ["hermetic"]
"""


def run_alone(folder: Path, source: str, **settings: str) -> str:
    """Run one test below a copy of the conftest; return pytest's closing line."""
    (folder / "tests/hermetic").mkdir(parents=True)
    shutil.copy(CONFTEST, folder / "tests")
    (folder / "tests/hermetic/test_one.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = hermetic: x\n")
    kept = {key: value for key, value in os.environ.items() if key not in ("CI", "PYTEST_ADDOPTS")}
    kept.pop("INSIDE_GENERATE_NO_SKIPS", None)
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others take seconds to load
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        command, cwd=folder, env=kept | settings, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()[-1]


def test_a_skip_stays_a_skip_on_a_readers_machine(tmp_path):
    assert "1 skipped" in run_alone(tmp_path, SKIPPED)
    assert "failed" not in run_alone(tmp_path / "ci-off", SKIPPED, CI="false")


@pytest.mark.parametrize("name", ["CI", "INSIDE_GENERATE_NO_SKIPS"])
def test_a_skip_is_a_failure_where_nothing_may_be_skipped(tmp_path, name):
    assert "1 failed" in run_alone(tmp_path, SKIPPED, **{name: "1"})


def test_a_module_that_is_skipped_as_a_whole_is_a_failure_too(tmp_path):
    assert "1 error" in run_alone(tmp_path, MODULE_SKIPPED, CI="true")


def test_a_skip_that_is_listed_with_its_reason_stays_a_skip(tmp_path):
    assert "1 skipped" in run_alone(tmp_path, ALLOWED, CI="true")


def test_a_test_that_leaves_the_machine_fails_even_if_it_expected_the_refusal(tmp_path):
    assert "1 error" in run_alone(tmp_path, REACHES_OUT)


def test_a_test_is_marked_with_the_tier_of_its_folder(tmp_path):
    assert "1 passed" in run_alone(tmp_path, READS_TIER)
