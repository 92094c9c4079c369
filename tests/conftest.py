"""What every test is held to: its tier, its surroundings, the network and the skips.

Knows nothing about models or pages: fixtures for those live in the folder of their tier.
"""

import os
import signal
import socket
from pathlib import Path

import pytest

TIERS = ("hermetic", "weights", "notebooks", "book", "gpu", "workshop")

# The only skips that stay skips where nothing else may be skipped (CI, INSIDE_GENERATE_NO_SKIPS):
# how the reason begins, and why that is no fault of the machine.
ALLOWED_SKIPS = {
    "needs a CUDA GPU": "the machines of the continuous checks have none",
    "needs Apple's MPS": "the machines of the continuous checks have none",
}


def pytest_configure() -> None:
    """Hear SIGINT in tests and what they start, although a shell's ``make test &`` ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its tier: the folder right below tests/."""
    root = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(root).parts[0] if item.path.is_relative_to(root) else ""
        if folder in TIERS:
            item.add_marker(folder)


def skips_fail() -> bool:
    """Whether a skip counts as a failure here."""
    values = (os.environ.get(name, "") for name in ("CI", "INSIDE_GENERATE_NO_SKIPS"))
    return any(value.lower() not in ("", "0", "false", "no") for value in values)


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip that is not allowed into a failure that gives the skip's own reason."""
    if not report.skipped or hasattr(report, "wasxfail") or not skips_fail():
        return
    place = report.longrepr
    reason = (place[-1] if isinstance(place, tuple) else str(place)).removeprefix("Skipped: ")
    if not reason.startswith(tuple(ALLOWED_SKIPS)):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    fail_if_skipped(report)
    return report


@pytest.fixture(autouse=True)
def surroundings(request, monkeypatch, tmp_path):
    """Keep a hermetic test away from the reader's models, settings, tokens and network."""
    if not request.node.get_closest_marker("hermetic"):
        return
    for name in ("MODEL", "DEVICE", "DTYPE"):
        monkeypatch.delenv(f"INSIDE_GENERATE_{name}", raising=False)
    monkeypatch.setenv("INSIDE_GENERATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for spelling in (name, name.upper()):  # a child process meets a closed door
            monkeypatch.setenv(spelling, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch):
    """Refuse connections that leave this machine, and fail the test that tried one."""
    tried = []

    def guarded(real):
        def connect(self, address):
            host = address[0] if isinstance(address, tuple) else "127.0.0.1"
            if not (host == "localhost" or host == "::1" or host.startswith("127.")):
                tried.append(address)
                raise ConnectionRefusedError(f"tests stay on this machine, not {address}")
            return real(self, address)

        return connect

    monkeypatch.setattr(socket.socket, "connect", guarded(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(socket.socket.connect_ex))
    yield
    assert not tried, f"this test tried to reach {tried}"
