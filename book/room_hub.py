"""A JupyterHub on the loopback address, with the configuration of `workshop/`, for a while.

Knows how to set up an environment for it, what a rehearsal changes in the configuration, and how to
start and end the hub. What learners do there knows `room_learner.py`.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from inside_generate.interrupts import uninterrupted
from pages import BookError

WORKSHOP = Path(__file__).resolve().parent / "workshop"
SECONDS_TO_START, SECONDS_TO_END = 90, 20
HOMES = "h"  # the path of a socket may have a hundred letters, and Jupyter's part of it is long
AS_ORDINARY_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
REHEARSAL = """\
c = get_config()
load_subconfig({config!r})
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = {password!r}
c.Authenticator.allowed_users = {learners!r}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = {homes!r} + "/{{username}}"
c.Spawner.environment |= {borrowed!r}
c.Spawner.args += {arguments!r}
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub_port}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
c.ConfigurableHTTPProxy.pid_file = {state!r} + "/proxy.pid"
c.JupyterHub.db_url = "sqlite:///" + {state!r} + "/hub.sqlite"
c.JupyterHub.cookie_secret_file = {state!r} + "/cookie_secret"
"""


@dataclass(frozen=True)
class Hub:
    """A running hub."""

    address: str
    password: str
    process: psutil.Process


def set_up(folder: Path) -> tuple[Path, Path]:
    """Install what `workshop/` pins into `folder`; return the Python and the proxy's program.

    The environment lends this Python's packages, so that the course is not installed twice.
    BookError where npm is missing or a package cannot be had.
    """
    python, proxy = folder / "env/bin/python", folder / "node_modules/.bin/configurable-http-proxy"
    pins = [WORKSHOP / "requirements.txt", WORKSHOP / "package.json"]
    stamp, made_from = folder / "made_from", "".join(path.read_text("utf-8") for path in pins)
    if stamp.is_file() and stamp.read_text("utf-8") == made_from + sys.prefix:
        return python, proxy
    if shutil.which("npm") is None:
        raise BookError("a classroom server needs npm, and there is none; sudo apt install npm")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    call([sys.executable, "-m", "venv", str(folder / "env")])
    packages = folder / f"env/lib/python{sysconfig.get_python_version()}/site-packages"
    lent = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (packages / "course.pth").write_text(lent, "utf-8")
    constraints = ["-c", str(WORKSHOP.parents[1] / ".ci/constraints.txt")]
    call([str(python), "-m", "pip", "install", "-qq", *constraints, "-r", str(pins[0])])
    shutil.copy(pins[1], folder)
    call(["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder)])
    stamp.write_text(made_from + sys.prefix, "utf-8")
    return python, proxy


def call(command: list[str]) -> None:
    """Run a command to its end. BookError with its last words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise BookError(f"{' '.join(command[:4])} failed: {said[-1]}")


def ordinary_user() -> list[str] | None:
    """What to put before a command so that it runs as no administrator; None if that cannot be."""
    if os.geteuid() != 0:
        return []
    try:
        done = subprocess.run([*AS_ORDINARY_USER, "true"], capture_output=True, check=False)
    except OSError:
        return None
    return None if done.returncode else AS_ORDINARY_USER


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def running(
    python: Path, proxy: Path, state: Path, learners: list[str], shared: dict[str, str]
) -> Iterator[Hub]:
    """A hub with room for `learners`; it and all that it started are gone afterwards.

    `state` is an empty folder for what it keeps; `shared` sets the variables of
    `workshop/course_config.py`.
    """
    before = ordinary_user()
    port, hub_port, api_port = free_ports(3)
    words = {
        "config": str(WORKSHOP / "jupyterhub_config.py"),
        "password": os.urandom(16).hex(),
        "learners": set(learners),
        "homes": str(state / HOMES),
        "borrowed": {  # what JupyterLab has installed beside its packages
            "JUPYTERLAB_DIR": str(Path(sys.prefix, "share/jupyter/lab")),
            "JUPYTER_PATH": str(Path(sys.prefix, "share/jupyter")),
            "JUPYTER_CONFIG_PATH": str(Path(sys.prefix, "etc/jupyter")),
        },
        "arguments": ["--allow-root"] if before is None else [],
        "hub_port": hub_port,
        "api_port": api_port,
        "state": str(state),
    }
    config = state / "rehearsal_config.py"
    config.write_text(REHEARSAL.format(**words), "utf-8")
    address = f"http://127.0.0.1:{port}"
    around = os.environ | shared | {"COURSE_BIND": address, "COURSE_PROXY": str(proxy)}
    command = [*(before or []), str(python), "-m", "jupyterhub", "--config", str(config)]
    log = proxy.parents[2] / "hub.log"
    with log.open("wb") as said:
        process = psutil.Popen(command, cwd=state, env=around, stdout=said, stderr=said)
    try:
        wait_for(address, process, log)
        yield Hub(address, str(words["password"]), process)
    finally:
        end(process)


def wait_for(address: str, process: psutil.Popen, log: Path) -> None:
    """Wait until the hub answers through its proxy. BookError with its last words if it fails."""
    host, port = address.removeprefix("http://").split(":")
    deadline = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < deadline:
        if "JupyterHub is now running" in log.read_text("utf-8", "replace"):
            with socket.create_connection((host, int(port)), timeout=10):
                return
        time.sleep(0.2)
    lines = log.read_text("utf-8", "replace").splitlines() or ["it said nothing"]
    raise BookError(f"the hub did not start: {lines[-1]}")


def end(process: psutil.Popen) -> None:
    """End the hub as an administrator would, then whatever of it is left, in any case."""
    with uninterrupted():
        family = process.children(recursive=True) if process.is_running() else []
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs([process, *family], timeout=SECONDS_TO_END)
        for one in left:
            one.kill()
        psutil.wait_procs(left, timeout=10)
