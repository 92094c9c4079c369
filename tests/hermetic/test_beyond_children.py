"""A program that is started beside this one ends with its block, whatever happens in it."""

import importlib.util
import os
import signal
import socket
import sys
import time

import psutil
import pytest
import torch

from inside_generate import InsideGenerateError
from inside_generate.beyond import children, server
from inside_generate.beyond.children import child, descendants, last_words, wait_until

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = (
    "import signal, subprocess, sys, time;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen([sys.executable, '-c', "
    "'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)'], "
    "start_new_session=True);"
    "print('up', flush=True); time.sleep(60)"
)


@pytest.fixture(autouse=True)
def nothing_left():
    before = set(descendants(os.getpid()))
    yield
    assert set(descendants(os.getpid())) - before == set()


def at_work(process):
    """Whether a process runs; one that nobody has asked for its exit code yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_child_ends_with_its_block(tmp_path):
    with child(SLEEPS, tmp_path / "log") as process:
        assert process.poll() is None
    assert process.returncode == -signal.SIGTERM


def test_a_child_ends_when_the_block_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), child(SLEEPS, tmp_path / "log") as process:
        1 / 0  # noqa: B018
    assert process.returncode is not None


def test_what_a_child_started_ends_too_even_against_its_will(tmp_path, monkeypatch):
    monkeypatch.setattr(children, "PATIENCE_S", 0.1)
    log = tmp_path / "log"
    with child([sys.executable, "-c", STUBBORN], log) as process:
        wait_until(lambda: "up" in log.read_text(), process, log, 20, "it")
        family = [psutil.Process(process.pid), *descendants(process.pid)]
        assert len(family) == 2
    assert not any(at_work(one) for one in family)


def test_a_child_that_ends_before_it_is_ready_is_said_to_have(tmp_path):
    log = tmp_path / "log"
    words = "print('hello'); print('OSError: no room'); print('bye'); raise SystemExit(3)"
    with (
        child([sys.executable, "-c", words], log) as process,
        pytest.raises(InsideGenerateError, match=r"it ended before .*: OSError: no room$"),
    ):
        wait_until(lambda: False, process, log, 20, "it")


def test_a_child_that_is_never_ready_is_not_waited_for(tmp_path):
    log = tmp_path / "log"
    with (
        child(SLEEPS, log) as process,
        pytest.raises(InsideGenerateError, match=r"not ready after 0\.1 s; .* said nothing$"),
    ):
        wait_until(lambda: False, process, log, 0.1, "it")


def test_the_last_words_are_one_short_line(tmp_path):
    log = tmp_path / "log"
    assert last_words(log) == "it said nothing"
    log.write_text("a\n  KeyError:\t'x'\rLoading weights: 3%\nwarning: error soon\n\n", "utf-8")
    assert last_words(log) == "KeyError: 'x'"
    log.write_bytes(b"\xff error " + b"x" * 1000)
    assert len(last_words(log)) <= 301


# --- a server -------------------------------------------------------------------------------------

UP = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "small"}]}')

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def program(monkeypatch):
    """Let a few lines of Python stand in for the server; they are given the port."""
    monkeypatch.setattr(server, "check_installed", lambda: None)
    monkeypatch.delenv(server.ADDRESS, raising=False)

    def stand_in(code):
        def command(model, port, *rest):
            return [sys.executable, "-c", code, str(port)]

        monkeypatch.setattr(server, "serve_command", command)

    return stand_in


def start(**changes):
    return server.serving("a model", **{"blocks": 4, "block_tokens": 16, "start_s": 20, **changes})


def test_a_server_is_ready_in_its_block_and_gone_after_it(program):
    program(UP)
    with start() as found:
        assert found.ours
        assert server.answers(found.url)
    assert not server.answers(found.url)


def test_a_server_is_gone_after_an_error_in_its_block(program):
    program(UP)
    with pytest.raises(ZeroDivisionError), start() as found:
        1 / 0  # noqa: B018
    assert not server.answers(found.url)


def test_a_server_that_dies_says_why(program):
    program("raise ValueError('a strange model')")
    with (
        pytest.raises(InsideGenerateError, match=r"server ended .*: ValueError: a strange model$"),
        start(),
    ):
        pytest.fail("it must not come up")


def test_a_server_that_never_comes_up_is_not_waited_for(program):
    program("import time; print('loading', flush=True); time.sleep(60)")
    before = time.monotonic()
    with pytest.raises(InsideGenerateError, match=r"not ready after 0\.3 s"), start(start_s=0.3):
        pytest.fail("it must not come up")
    assert time.monotonic() - before < 20  # not a minute


def test_a_port_in_use_is_said_before_anything_is_started(program):
    program(UP)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InsideGenerateError, match=f"port {port} cannot"), start(port=port):
            pytest.fail("it must not come up")


def test_another_address_takes_the_place_of_our_server(program, monkeypatch):
    program(UP)
    with start() as ours:
        monkeypatch.setenv(server.ADDRESS, ours.url + "/")
        program("raise SystemExit('it must not start')")
        with start() as theirs:
            assert (theirs.url, theirs.ours) == (ours.url, False)
        assert server.answers(ours.url)  # it is not ours to end


def test_what_a_server_needs_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else 1)
    with pytest.raises(InsideGenerateError, match="needs fastapi as well; type `pip install"):
        server.check_installed()


@pytest.mark.parametrize(
    "wrong", [{"blocks": 0}, {"block_tokens": 3}, {"start_s": 0}, {"port": 0}, {"port": 70_000}]
)
def test_a_server_that_cannot_be_meant_is_refused(program, wrong):
    program(UP)
    refused = pytest.raises((ValueError, InsideGenerateError), match=r"must be|cannot be")
    with refused, start(**wrong):
        pytest.fail("it must not come up")


def test_a_server_listens_on_this_machine_only_and_asks_no_network():
    command = server.serve_command("path", 8000, 4, 51, torch.bfloat16, "cpu")
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert {"--continuous-batching", "bfloat16", "path"} <= set(command)
    assert server.surroundings()["HF_HUB_OFFLINE"] == "1"


def test_a_second_interruption_while_a_child_ends_does_not_keep_it_alive(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    log = tmp_path / "log"
    with child([sys.executable, "-c", STUBBORN], log) as process:
        wait_until(lambda: "up" in log.read_text(), process, log, 20, "it")
        family = descendants(process.pid)
        monkeypatch.setattr(process, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            children.end(process)
        monkeypatch.undo()
        assert process.wait(20) == -signal.SIGKILL
        psutil.wait_procs(family, timeout=20)
        assert not any(map(at_work, family))


def test_a_readers_address_that_is_none_is_one_line_with_the_name_of_its_variable(monkeypatch):
    monkeypatch.setenv(server.ADDRESS, "ftp://x")
    said = f"^{server.ADDRESS}: a server's address looks like"
    with (
        pytest.raises(InsideGenerateError, match=said),
        server.serving("no model", blocks=4, block_tokens=16),
    ):
        pytest.fail("it went on")
