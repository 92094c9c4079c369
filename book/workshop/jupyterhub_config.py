"""A classroom server of one's own: `jupyterhub --config jupyterhub_config.py`.

Adds to `course_config.py` what The Littlest JupyterHub and Kubernetes bring along themselves: the
proxy, the service that ends idle servers, and how many may run. Who may log in is left to you: as
it stands, JupyterHub asks this machine's accounts (PAM), and nobody is let in who is not named.
"""

import os
import sys
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821
load_subconfig(str(Path(__file__).with_name("course_config.py")))  # type: ignore[name-defined]  # noqa: F821

IDLE_MINUTES = int(os.environ.get("COURSE_IDLE_MINUTES") or "20")  # read there too, and checked
LEARNERS = os.environ.get("COURSE_LEARNERS") or "20"
if not LEARNERS.isdecimal() or int(LEARNERS) < 1:  # to JupyterHub, 0 is no limit at all
    sys.exit(f"error: COURSE_LEARNERS must be a whole number, 1 or more, not {LEARNERS!r}")

# This machine only, until a web server with a certificate stands in front of it.
c.JupyterHub.bind_url = os.environ.get("COURSE_BIND") or "http://127.0.0.1:8000"
c.ConfigurableHTTPProxy.command = [os.environ.get("COURSE_PROXY") or "configurable-http-proxy"]
# No more learners than the machine was sized for; all of them may start in the same minute.
c.JupyterHub.active_server_limit = int(LEARNERS)
c.JupyterHub.concurrent_spawn_limit = 10
c.Authenticator.allowed_users = set(os.environ.get("COURSE_USERS", "").split())

c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [
            sys.executable,
            "-m",
            "jupyterhub_idle_culler",
            f"--timeout={60 * (IDLE_MINUTES + 10)}",  # after the kernels, which go first
        ],
    }
]
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "services": ["idle-culler"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    }
]
