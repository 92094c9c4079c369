"""Can notebooks run here: a kernel is started, asked one question, and ended.

What it knows: how to ask Jupyter, in a process of its own. What it leaves to others: which packages
there should be (``checkup``), and the folders of the course.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from inside_generate.doctor.checkup import FAIL, OK, Check, install_command

SECONDS = 30  # a slow disk takes its time over the first start
ASK = """
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3", startup_timeout=15)
said = []
try:
    client.execute_interactive(
        "import sys; print(sys.prefix)",
        timeout=10,
        output_hook=lambda message: said.append(message["content"].get("text", "")),
    )
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print("".join(said).strip())
"""


def kernel() -> Check:
    """Does the kernel "python3", which every lesson asks for, answer, and is it this Python?"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check("notebooks", FAIL, f"no kernel answers within {SECONDS} seconds")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        return Check("notebooks", FAIL, f"no kernel can be started: {last}", install_command())
    where = done.stdout.strip()
    if Path(where).resolve() == Path(sys.prefix).resolve():
        return Check("notebooks", OK, "a kernel starts, answers, and is this Python")
    finding = f'the kernel "python3" belongs to another Python ({where})'
    return Check("notebooks", FAIL, finding, f"{sys.executable} -m ipykernel install --sys-prefix")
