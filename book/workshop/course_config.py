"""What the course needs of a JupyterHub, and nothing about who may log in or what starts servers.

A hub of your own loads it through `jupyterhub_config.py`. The Littlest JupyterHub reads it as it is
from its folder `jupyterhub_config.d`. Set the paths below, or the variables of the same names in
the hub's own environment.
"""

import os
import sys
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821


def whole(name: str, default: str) -> int:
    """A whole number, 1 or more, from the hub's environment; the hub ends in one line otherwise."""
    value = os.environ.get(name) or default
    if not value.isdecimal() or int(value) < 1:
        sys.exit(f"error: {name} must be a whole number, 1 or more, not {value!r}")
    return int(value)


# Made by the teacher, owned by root: models/, and settings.json with what was measured once.
SHARED_HOME = os.environ.get("COURSE_SHARED_HOME") or "/srv/inside-generate/home"
# What each learner gets a copy of: notebooks/, and what those link to.
MATERIAL = os.environ.get("COURSE_MATERIAL") or "/srv/inside-generate/material"
# This file's neighbour, where learners can read it.
FIRST_LOGIN = os.environ.get("COURSE_FIRST_LOGIN") or "/srv/inside-generate/first_login.py"
# The Python with the course's packages and jupyterhub.
PYTHON = os.environ.get("COURSE_PYTHON") or "/opt/tljh/user/bin/python"
# How many threads a learner's kernel computes with: cores divided by learners, at least 1.
THREADS = whole("COURSE_THREADS", "1")
# "auto" takes the faster one; "bfloat16" is the format of the files, so that all share one copy.
DTYPE = os.environ.get("COURSE_DTYPE") or "auto"
MEMORY = os.environ.get("COURSE_MEMORY") or "4G"
IDLE_MINUTES = whole("COURSE_IDLE_MINUTES", "20")

c.Spawner.cmd = [PYTHON, FIRST_LOGIN, MATERIAL, PYTHON, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab/tree/inside-generate/notebooks/00_the_whole_path.ipynb"
c.Spawner.environment = {
    "INSIDE_GENERATE_HOME": SHARED_HOME,
    "INSIDE_GENERATE_DTYPE": DTYPE,
    "HF_HUB_OFFLINE": "1",  # what is on the disk is what there is
    "OMP_NUM_THREADS": str(THREADS),
    "PATH": os.pathsep.join([str(Path(PYTHON).parent), os.environ.get("PATH", os.defpath)]),
}
# Obeyed by the spawners of The Littlest JupyterHub and of Kubernetes, not by a plain process.
c.Spawner.mem_limit = MEMORY
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
# Kernels that start in the same second take each other's TCP ports; a socket in the learner's home
# is theirs alone, and no other learner can speak to it. The home's path has to be short for that.
# A forgotten kernel holds a model, in memory and on the GPU. One that still computes is let be.
c.Spawner.args = [
    "--KernelManager.transport=ipc",
    f"--MappingKernelManager.cull_idle_timeout={60 * IDLE_MINUTES}",
    "--MappingKernelManager.cull_interval=60",
    "--MappingKernelManager.cull_connected=True",
]
